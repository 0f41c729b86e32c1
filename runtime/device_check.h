#pragma once
// Checks a GPU before `auto` selects it: a tiny network trains some steps there and on the CPU, and both must agree.
// The check takes milliseconds, once per process.

#include <string>

#include "core/device/device.h"

namespace braid {

/// What is wrong with training on a CUDA device, in a sentence; empty if nothing is. Checks convolutions, batch norm, a
/// matrix product, the loss, all gradients and the update, the last steps replayed as a CUDA graph. Waits for the
/// device.
std::string device_fault(const Device& device);

/// The device that a name of Device::parse stands for, and why it is not the GPU that `auto` would select; empty if it
/// is, or if there is none. A GPU is checked when it is first asked for. Throws DeviceError if one that is named does
/// not pass. May be called by several threads at once.
struct FoundDevice {
  Device device;
  std::string report;
};
FoundDevice find_device(const std::string& name);

/// Takes this for the result of the check, for tests.
void set_device_fault(const Device& device, const std::string& fault);

}  // namespace braid
