#pragma once
// Plans that keep to a limit of memory. What is traded for it: concurrency, by letting fewer nodes be in flight at
// once, on fewer streams, down to one node after another in an order that frees memory early; then workspace, by slower
// kernels that need less of it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/plan.h"

namespace braid::scheduler {

struct LimitedPlan {
  Plan plan;                        ///< verified
  std::vector<std::string> traded;  ///< what was given up for memory, as text; empty if nothing was
  bool fits = false;                ///< plan.arena_bytes <= limit
};

/// The plan with the smallest predicted makespan among those tried whose arena is within `limit` bytes; if there is
/// none, the plan with the fewest live bytes, as a start for callers that can save memory by other means. A larger
/// limit never gives a larger makespan. Persistent values (parameters, optimizer state) do not count: they are not in
/// the arena. Throws PlanError if the limit is not positive.
LimitedPlan plan_within(const Problem& problem, Policy policy, std::string_view policy_name, std::int64_t limit);

}  // namespace braid::scheduler
