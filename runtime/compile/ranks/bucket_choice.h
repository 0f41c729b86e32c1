#pragma once
// Chooses the buckets of a step by the predicted time of its plan.

#include "ops/rewrites/partition.h"
#include "scheduler/policy.h"

namespace braid {

/// The partition with buckets, and slices of large all-reduces if they help. Candidates are one bucket, one per
/// summand, fixed sizes and those that scheduler::merge finds. The best is improved by joining and splitting buckets:
/// first by the times of the list scheduler, then by simulated plans of the policy, which also decides among the
/// candidates. Without `improves`, the candidates stay as they are, and the list scheduler decides, which is much
/// faster.
ops::Partition with_buckets(const StepGraph& recorded, const ops::Partition& partition,
                            const scheduler::CostModel& model, int streams, scheduler::Policy policy,
                            bool improves = true);

}  // namespace braid
