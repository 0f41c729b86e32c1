#pragma once
// Depthwise convolutions: every channel is filtered separately, so there is no matrix product for a library to compute.

#include "ops/kernels/function_kernel.h"

namespace braid::cpu::depthwise {

/// Kernels for values that are all f32 and not empty (fast_kernel), where every channel is a group, for any filter,
/// stride, padding and dilation. Null for other convolutions, where oneDNN is available and faster, and on processors
/// without AVX-512. Results do not depend on the width.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::depthwise
