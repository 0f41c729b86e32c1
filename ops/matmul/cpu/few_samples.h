#pragma once
// Fully connected layers of few samples. They take the time in which memory delivers the weights.

#include "ops/kernels/kernels.h"

namespace braid::cpu::few_samples {

/// Kernels for values that are all f32 and not empty (fast_kernel). Null where oneDNN is faster (more samples), and on
/// processors without AVX-512. Results do not depend on the width.
std::unique_ptr<Kernel> linear(const KernelSpec& spec);
std::unique_ptr<Kernel> linear_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::few_samples
