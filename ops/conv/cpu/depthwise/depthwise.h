#pragma once
// Depthwise convolutions: every channel is filtered separately, so there is no matrix product for a library to compute.

#include "ops/kernels/function_kernel.h"

namespace braid::cpu::depthwise {

/// Null unless these loops are the spec's fastest algorithm (cpu_algorithm.h) and the processor has AVX-512. Results do
/// not depend on the width.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::depthwise
