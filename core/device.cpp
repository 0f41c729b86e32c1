#include "core/device.h"

#include <charconv>

#include "core/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/cuda/cuda_backend.h"
#include "core/error.h"

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

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return device.type == DeviceType::cpu ? out << "cpu" : out << "cuda:" << device.index;
}

std::unique_ptr<Backend> make_backend(const Device& device, int threads) {
  if (device.type == DeviceType::cpu) return cpu::make_backend(threads);
  return cuda::make_backend(device.index);
}

}  // namespace braid
