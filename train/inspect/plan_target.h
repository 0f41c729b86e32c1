#pragma once
// The device that a step is planned for. For a device you do not have, libraries report the kernels from its
// description, or the analytic model is the only source.

#include <string>

#include "scheduler/costs/cluster.h"
#include "scheduler/costs/profile.h"
#include "train/config/config.h"

namespace braid {

struct PlanTarget {
  Device device;
  DeviceInfo info;
  /// Whether this process knows the implementations of a node on the device and their workspaces; and their source, or
  /// the reason why not, for example "with cuDNN's plans and their workspaces".
  bool has_kernels = false;
  std::string kernels = {};
};

/// `name`: a device as in configs, a name of known_devices.h, or a file *.json that describes a device. Throws Error or
/// DeviceError if there is no such device.
PlanTarget find_plan_target(const std::string& name);

/// A name of scheduler/costs/cluster.h, or a file *.yaml that describes a cluster. Throws Error or ConfigError.
scheduler::Cluster find_cluster(const std::string& name);

/// The costs of a step's nodes on a device.
struct TargetCosts {
  scheduler::Costs costs;
  std::optional<scheduler::Profile> profile;  ///< if options name one
  scheduler::ProfileUse measured;             ///< nodes with costs from it
  std::int32_t convolutions = 0;              ///< nodes: forward, backward-data and backward-filter
  std::int32_t implementations = 0;           ///< number for all convolutions together; 0 without kernels
};

/// Throws DataError or DeviceError if the options name a profile that cannot be read or belongs to another device.
TargetCosts target_costs(const StepGraph& graph, const PlanTarget& target, const SessionOptions& options);

}  // namespace braid
