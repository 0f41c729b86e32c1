// Takes the place of the kernels that run in cuDNN and cuBLASLt, of which there is no emulation.

#include "ops/cuda/factories.h"

namespace braid::cuda {

namespace {

[[noreturn]] void refuse(const KernelSpec& spec) {
  throw Error(message("[", spec.op.name(), "] runs in a library, which is not emulated"));
}

}  // namespace

std::vector<Implementation> make_conv2d(const KernelSpec& spec) { refuse(spec); }
std::vector<Implementation> make_conv2d_backward_data(const KernelSpec& spec) { refuse(spec); }
std::vector<Implementation> make_conv2d_backward_filter(const KernelSpec& spec) { refuse(spec); }
std::unique_ptr<Kernel> make_linear(const KernelSpec& spec) { refuse(spec); }
std::unique_ptr<Kernel> make_linear_backward_data(const KernelSpec& spec) { refuse(spec); }
std::unique_ptr<Kernel> make_linear_backward_filter(const KernelSpec& spec) { refuse(spec); }
std::string device_properties(int) { throw Error("[cuda] an emulation is no device that cuDNN knows"); }

}  // namespace braid::cuda
