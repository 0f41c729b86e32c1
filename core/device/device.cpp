#include "core/device/device.h"

#include <charconv>

#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/device/cpu/cpu_backend.h"
#include "core/device/cuda/cuda_backend.h"

namespace braid {

Device Device::parse(std::string_view text) {
  if (text == "auto") return cuda::unavailable_reason().empty() ? Device{DeviceType::cuda, 0} : Device{};
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceType::cuda, 0};
  int index = -1;
  if (text.starts_with("cuda:")) {
    const auto [end, error] = std::from_chars(text.data() + 5, text.data() + text.size(), index);
    if (error == std::errc{} && end == text.data() + text.size() && index >= 0) return {DeviceType::cuda, index};
  }
  throw DeviceError(message("[device] expected 'auto', 'cpu', 'cuda' or 'cuda:<index>', got '", text, "'"));
}

void DeviceInfo::set_gpu_rates(double flops, double matrix_flops, double memory_bandwidth) {
  constexpr double kComputeShare = 0.9, kMatrixShare = 0.7, kMemoryShare = 0.85;  // profiles replace these
  flops_per_unit = kComputeShare * flops / capacity;
  matrix_flops_per_unit = kMatrixShare * matrix_flops / capacity;
  bytes_per_second = kMemoryShare * memory_bandwidth;
  bytes_per_second_unit = 3 * bytes_per_second / capacity;  // a third of the SMs saturates the memory
  launch_seconds = 2e-6;                                    // a kernel within a CUDA graph
  oversubscribes = true;
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return device.type == DeviceType::cpu ? out << "cpu" : out << "cuda:" << device.index;
}

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
  if (device.type == DeviceType::cpu) return cpu::make_backend(threads);
  return cuda::make_backend(device.index);
}

}  // namespace braid
