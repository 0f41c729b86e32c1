#pragma once
// Devices to plan for that need not be there: some are known by name, others are described in a file. Together with the
// kernels' workspaces, which cuDNN tells of a device from its description alone, a plan can be made anywhere.

#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"

namespace braid::scheduler {

/// As "h200". Throws Error with the list of names if there is none.
DeviceInfo known_device(std::string_view name);
std::vector<std::string> known_device_names();

/// All that planning needs to know of a device, to be read where the device is not.
std::string to_json(const DeviceInfo& device);
/// Throws Error with the key if one is missing, unknown or of the wrong type or range.
DeviceInfo device_from_json(std::string_view text);

}  // namespace braid::scheduler
