#pragma once
// Devices to plan for, without having them: some are known by name, others are described in a file. cuDNN derives the
// kernels' workspaces from the description alone, so a plan can be made anywhere.

#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"

namespace braid::scheduler {

/// A device by its name, such as "h200". Throws Error with the list of names if there is none.
DeviceInfo known_device(std::string_view name);
std::vector<std::string> known_device_names();

/// Everything planning needs to know about a device, for machines that do not have it.
std::string to_json(const DeviceInfo& device);
/// Throws Error with the key if one is missing, unknown or of the wrong type or range.
DeviceInfo device_from_json(std::string_view text);

}  // namespace braid::scheduler
