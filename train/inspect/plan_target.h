#pragma once
// The device that a step is planned for. It need not be there: then its kernels are asked of libraries that know it
// from its description, or the analytic model stands alone.

#include <string>

#include "scheduler/costs/profile.h"
#include "train/config/config.h"

namespace braid {

struct PlanTarget {
  Device device;
  DeviceInfo info;
  /// Whether this process can tell in what ways the device runs a node and what workspace that needs; and where that
  /// comes from, or why not, as "with cuDNN's plans and their workspaces".
  bool has_kernels = false;
  std::string kernels = {};
};

/// `name`: as in configs, a name of known_devices.h, or a file *.json that describes a device. Throws Error or
/// DeviceError if there is no such device.
PlanTarget find_plan_target(const std::string& name);

/// What the nodes of a step cost on a device.
struct TargetCosts {
  scheduler::Costs costs;
  std::optional<scheduler::Profile> profile;  ///< if options name one
  scheduler::ProfileUse measured;             ///< by it
  std::int32_t convolutions = 0;              ///< nodes: forward, backward-data and backward-filter
  std::int32_t candidates = 0;                ///< ways to run them, all together; 0 without kernels
};

/// Throws DataError or DeviceError if the options name a profile that cannot be read or is another device's.
TargetCosts target_costs(const StepGraph& graph, const PlanTarget& target, const SessionOptions& options);

}  // namespace braid
