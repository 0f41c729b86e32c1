// Takes the place of the CUDA kernels in builds without CUDA.

#include "ops/kernels.h"

namespace braid::cuda {

std::vector<Implementation> make_implementations(const KernelSpec& spec) {
  throw DeviceError(message("[", spec.op.name(), "] built without CUDA: use device 'cpu'"));
}

std::vector<std::string_view> kernel_names() { return {}; }

std::string device_properties(int index) {
  throw DeviceError(message("[cuda:", index, "] built without CUDA: use device 'cpu'"));
}

}  // namespace braid::cuda
