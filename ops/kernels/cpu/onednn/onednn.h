#pragma once
// The only interface to oneDNN: f32 convolutions and matrix products as kernels. Compiles against oneDNN 2.x, and 3.x
// from 3.4.1 on.

#include <string>

#include "ops/kernels/function_kernel.h"

namespace braid::cpu::onednn {

/// Whether Braid was built with oneDNN, and the environment does not set BRAID_ONEDNN=0; without it every factory below
/// returns null.
bool available();
/// The version of the library in use, as "2.6.0"; empty without it.
std::string version();

/// Kernels for values that are all f32 and not empty (fast_kernel); null if oneDNN has none for the spec.
std::unique_ptr<Kernel> conv2d(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec);
std::unique_ptr<Kernel> matmul(const KernelSpec& spec);
std::unique_ptr<Kernel> linear(const KernelSpec& spec);
std::unique_ptr<Kernel> linear_backward_data(const KernelSpec& spec);
std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec& spec);

}  // namespace braid::cpu::onednn
