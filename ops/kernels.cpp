#include "ops/kernels.h"

namespace braid {

namespace cpu {
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec);
std::vector<std::string_view> kernel_names();
}  // namespace cpu

std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec) {
  BRAID_CHECK(device == DeviceType::cpu, DeviceError, "[", spec.op.name(), "] built without CUDA: use device 'cpu'");
  return cpu::make_kernel(spec);
}

std::vector<std::string_view> kernel_names(DeviceType device) {
  return device == DeviceType::cpu ? cpu::kernel_names() : std::vector<std::string_view>{};
}

}  // namespace braid
