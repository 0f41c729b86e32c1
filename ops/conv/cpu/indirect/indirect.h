#pragma once
// Direct convolutions as matrix products.

#include "ops/kernels/kernels.h"

namespace braid::cpu::indirect {

/// Null unless the spec's fastest algorithm is indirect or pointwise (cpu_algorithm.h) and the processor has AVX-512.
/// Results depend neither on the width nor on whether the filter is kept.
/// An infinite or NaN weight can make outputs NaN that see it outside of the image only.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::indirect
