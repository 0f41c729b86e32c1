#pragma once
// Convolutions with 3x3 filters and stride 1 by Winograd's minimal filtering: a quarter of the multiplications.

#include "ops/kernels/function_kernel.h"

namespace braid::cpu::winograd {

/// Null unless the spec's fastest algorithm is Winograd's (cpu_algorithm.h) and the processor has AVX-512. Results do
/// not depend on the width. A direct convolution has about half the rounding error.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::winograd
