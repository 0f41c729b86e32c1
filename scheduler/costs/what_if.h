#pragma once
// The costs of a step on a slightly different device: with more or fewer units, a faster memory, or cheaper launches.
// The analytic model says by how much each duration changes; measured ones change in the same ratio.

#include "scheduler/costs/costs.h"

namespace braid::scheduler {

struct WhatIf {
  int units = 0;               ///< cores or SMs in place of the device's; 0: as many as it has
  double launch_scale = 1;     ///< factor of the cost of a launch, at least 0
  double bandwidth_scale = 1;  ///< factor of the bandwidth of the memory that all units share, above 0
};

struct Scenario {
  DeviceInfo device;
  Costs costs;
};

/// The changed device and the costs of a graph on it. Where the hardware oversubscribes (a GPU), a node's width scales
/// with the number of units. Otherwise implementations too wide for the new device are removed, and nodes that may use
/// all of the old one's units may use more. The remaining implementations keep their index. New ones have no kernel:
/// the result can be planned and simulated, not run. Throws Error if a number is out of range.
Scenario what_if(const StepGraph& graph, const Costs& costs, const DeviceInfo& device, const WhatIf& change,
                 bool tf32 = false);

}  // namespace braid::scheduler
