#pragma once
// The factories of the CUDA kernels, by the file that holds them.

#include "ops/kernels.h"

namespace braid::cuda {

// conv2d.cpp
std::vector<Implementation> make_conv2d(const KernelSpec& spec);
std::vector<Implementation> make_conv2d_backward_data(const KernelSpec& spec);
std::vector<Implementation> make_conv2d_backward_filter(const KernelSpec& spec);

// elementwise.cu
std::unique_ptr<Kernel> make_relu(const KernelSpec& spec);

// linear.cpp
std::unique_ptr<Kernel> make_linear(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> make_linear_backward_filter(const KernelSpec& spec);

}  // namespace braid::cuda
