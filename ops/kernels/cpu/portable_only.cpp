// Replaces oneDNN in a build without it: the portable loops then do all the work.

#ifndef BRAID_ONEDNN

#include "ops/kernels/cpu/onednn/onednn.h"

namespace braid::cpu::onednn {

bool available() { return false; }
std::string version() { return {}; }

std::unique_ptr<Kernel> conv2d(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> matmul(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> linear(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> linear_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec&) { return nullptr; }

}  // namespace braid::cpu::onednn

#endif  // BRAID_ONEDNN
