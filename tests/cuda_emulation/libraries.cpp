// Replaces the kernels that run in cuDNN and cuBLASLt, which are not emulated.

#include "ops/kernels/own_kernels.h"

namespace braid::cuda {

namespace {

[[noreturn]] void refuse(const KernelSpec& spec) {
  throw Error(message("[", spec.op.name(), "] runs in a library, which is not emulated"));
}

}  // namespace

Implementations make_conv2d(const KernelSpec& spec) { refuse(spec); }
Implementations make_conv2d_backward_data(const KernelSpec& spec) { refuse(spec); }
Implementations make_conv2d_backward_filter(const KernelSpec& spec) { refuse(spec); }
Implementations make_linear(const KernelSpec& spec) { refuse(spec); }
Implementations make_linear_backward_data(const KernelSpec& spec) { refuse(spec); }
Implementations make_linear_backward_filter(const KernelSpec& spec) { refuse(spec); }
Implementations make_matmul(const KernelSpec& spec) { refuse(spec); }
std::string device_properties(int) { throw Error("[cuda] an emulation is no device that cuDNN knows"); }

}  // namespace braid::cuda
