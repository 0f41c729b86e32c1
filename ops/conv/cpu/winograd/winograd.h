#pragma once
// Convolutions with 3x3 filters and stride 1 by Winograd's minimal filtering: a quarter of the multiplications.

#include "ops/kernels/function_kernel.h"

namespace braid::cpu::winograd {

/// Kernels for values that are all f32 and not empty (fast_kernel), with channels in multiples of 16. Null where the
/// algorithm does not apply, where it would not be faster than a direct convolution or one is requested, and on
/// processors without AVX-512. Results do not depend on the width. A direct convolution has about
/// half the rounding error.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::winograd
