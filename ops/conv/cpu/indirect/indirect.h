#pragma once
// Direct convolutions as matrix products.

#include "ops/kernels/kernels.h"

namespace braid::cpu::indirect {

/// Kernels for values that are all f32 and not empty (fast_kernel), for any filter, stride, padding and dilation. Null
/// where oneDNN is faster (many pixels, except with 1x1 filters; fewer than 16 channels), for convolutions in groups,
/// and on processors without AVX-512. Results depend neither on the width nor on whether the filter is kept.
/// An infinite or NaN weight can make outputs NaN that see it outside of the image only.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::indirect
