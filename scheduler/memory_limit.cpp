#include "scheduler/memory_limit.h"

namespace braid {

LimitedPlan plan_within(const Problem& problem, Policy policy, std::string_view policy_name, std::int64_t limit) {
  BRAID_CHECK(limit > 0, PlanError, "[memory] expected a limit of at least 1 byte, got ", limit);
  LimitedPlan best{make_plan(problem, policy, policy_name), {}};
  best.fits = best.plan.arena_bytes <= limit;
  if (best.fits) return best;
  LimitedPlan alone{make_plan(problem, serial, "serial"), {"concurrency: one node after another"}};
  alone.fits = alone.plan.arena_bytes <= limit;
  return alone.plan.arena_bytes < best.plan.arena_bytes ? alone : best;
}

}  // namespace braid
