#include "ops/kernels.h"

namespace braid {

namespace cpu {
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec);
std::vector<std::string_view> kernel_names();
}  // namespace cpu
namespace cuda {  // ops/cuda, or ops/cuda/unavailable.cpp
std::vector<Implementation> make_implementations(const KernelSpec& spec);
std::vector<std::string_view> kernel_names();
std::string device_properties(int index);
}  // namespace cuda

std::vector<Implementation> make_implementations(DeviceType device, const KernelSpec& spec) {
  if (device == DeviceType::cuda) return cuda::make_implementations(spec);
  std::vector<Implementation> one;
  one.push_back({.kernel = cpu::make_kernel(spec)});
  return one;
}

std::unique_ptr<Kernel> make_kernel(DeviceType device, const KernelSpec& spec) {
  return std::move(make_implementations(device, spec).front().kernel);
}

std::string device_properties(const Device& device) {
  return device.type == DeviceType::cuda ? cuda::device_properties(device.index) : std::string();
}

std::vector<std::string_view> kernel_names(DeviceType device) {
  return device == DeviceType::cpu ? cpu::kernel_names() : cuda::kernel_names();
}

}  // namespace braid
