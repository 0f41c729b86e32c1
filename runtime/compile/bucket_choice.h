#pragma once
// Chooses the buckets of a step by the predicted time of its plan.

#include <span>

#include "ops/rewrites/partition.h"
#include "scheduler/costs/profile.h"
#include "scheduler/policy.h"

namespace braid {

/// The partition with buckets, and slices of large all-reduces if they help. Candidates are one bucket, one per
/// summand, fixed sizes and those that scheduler::merge finds. The best is improved by joining and splitting buckets:
/// first by the times of the list scheduler, then by simulated plans of the policy, which also decides among the
/// candidates. Costs are analytic_costs() on the device, with its link to the other ranks, and those of the profile for
/// the nodes, pairs and waits that it knows. Without `improves`, the candidates stay as they are, and the list
/// scheduler decides, which is much faster.
ops::Partition with_buckets(const StepGraph& recorded, const ops::Partition& partition, const DeviceInfo& device,
                            std::span<const int> widths, int streams, scheduler::Policy policy, bool tf32 = false,
                            const scheduler::Profile* profile = nullptr, bool improves = true);

}  // namespace braid
