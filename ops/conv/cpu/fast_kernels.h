#pragma once
// Convolutions by Braid's own loops: each is null unless its algorithm is the fastest for the spec (cpu_algorithm.h)
// and the processor has AVX-512. Results do not depend on the width.

#include "ops/kernels/kernels.h"

namespace braid::cpu {

/// Groups of one channel or few, too small for a library's matrix products.
namespace grouped {
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);
}  // namespace grouped

/// Direct convolutions as matrix products, for few pixels and for 1x1 filters. Results do not depend on whether the
/// filter is kept. An infinite or NaN weight can make outputs NaN that see it outside of the image only.
namespace indirect {
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);
}  // namespace indirect

/// 3x3 filters with stride 1 by Winograd's minimal filtering: a quarter of the multiplications. A direct convolution
/// has about half the rounding error.
namespace winograd {
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);
}  // namespace winograd

}  // namespace braid::cpu
