#pragma once
// Plans that keep to a limit of memory. What is traded for it, in this order: concurrency, by letting fewer nodes be in
// flight at once, on fewer streams, down to one node after another in an order that frees memory early; then workspace,
// by slower kernels that need less of it; then time, by recomputing cheap activations (scheduler/memory/recompute.h).
// Where recomputing them first is predicted to be faster, concurrency stays.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph_copy.h"
#include "scheduler/check/simulator.h"

namespace braid::scheduler {

struct LimitedPlan {
  Plan plan;                             ///< verified
  std::vector<std::string> traded = {};  ///< what was given up for memory, as text; empty if nothing was
  bool fits = true;                      ///< plan.arena_bytes is within the limit
};

/// The plan with the smallest predicted makespan among those tried whose arena is within `limit` bytes; if there is
/// none, the plan with the fewest live bytes, as a start for callers that can save memory by other means. A larger
/// limit never gives a larger makespan. Persistent values (parameters, optimizer state) do not count: they are not in
/// the arena. Throws PlanError if the limit is not positive.
LimitedPlan plan_within(const Problem& problem, Policy policy, std::string_view policy_name, std::int64_t limit);

/// A plan of the given graph, or of the one with recomputation.
struct LimitedStep : LimitedPlan {
  Problem problem;  ///< the problem that the plan solves: the given one, or the one with recomputation
  std::optional<RewrittenGraph> recomputed = {};  ///< unless nothing is recomputed
};

/// Values marked in the graph (Value::recomputed) are recomputed in any case.
/// The fastest of the plans that were tried whose arena takes at most `limit` bytes; if none is found, the one with the
/// smallest arena. 0 means no limit. The graph must be as it is to be run (with_kept_results). Throws PlanError as
/// make_plan does.
LimitedStep plan_step(Problem problem, Policy policy, std::string_view policy_name, std::int64_t limit);

/// The plans of the ranks of a pipeline, which have a stage each, and their simulated runs together.
struct LimitedStages {
  std::vector<LimitedStep> steps;
  std::vector<Simulation> runs;

  double makespan() const;           ///< of the longest run
  std::int64_t arena_bytes() const;  ///< of the largest arena
  bool fits() const;                 ///< whether all do
};
/// The same as plan_step() for each stage; a single one is a step of any number of ranks that have equal plans.
LimitedStages plan_stages(std::vector<Problem> stages, Policy policy, std::string_view policy_name, std::int64_t limit);

/// The text for steps that do not fit: the limit, the smallest arena that was found, and what was traded for it.
std::string does_not_fit(std::int64_t arena_bytes, std::span<const std::string> traded, std::int64_t limit);

}  // namespace braid::scheduler
