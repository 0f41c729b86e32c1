#pragma once
// The factories of the CUDA kernels, by the file that holds them.

#include "ops/kernels.h"

namespace braid::cuda {

// elementwise.cu
std::unique_ptr<Kernel> make_relu(const KernelSpec& spec);

}  // namespace braid::cuda
