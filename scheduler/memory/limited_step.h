#pragma once
// Plans of a whole step that keep to a limit of memory. What is traded for it, in this order: concurrency and workspace
// (scheduler/memory/memory_limit.h), then time, by recomputing cheap activations (scheduler/memory/recompute.h).

#include <optional>

#include "scheduler/memory/memory_limit.h"
#include "scheduler/memory/recompute.h"

namespace braid::scheduler {

struct LimitedStep {
  Plan plan;        ///< plans the given graph, or the one with recomputation
  Problem problem;  ///< the problem that it solves: the given one, or the one with recomputation
  std::optional<RewrittenGraph> recomputed;  ///< unless nothing is recomputed
  std::vector<std::string> traded = {};      ///< what was given up for memory, as text; empty if nothing was
  bool fits = true;                          ///< plan.arena_bytes is within the limit
};

/// Values marked in the graph (Value::recomputed) are recomputed in any case.
/// A plan whose arena takes at most `limit` bytes; if none is found, the one with the smallest arena. 0 means no limit.
/// The graph must be as it is to be run (with_kept_results). Throws PlanError as make_plan does.
LimitedStep plan_step(Problem problem, Policy policy, std::string_view policy_name, std::int64_t limit);

/// The text for steps that do not fit: the limit, the smallest arena that was found, and what was traded for it.
std::string does_not_fit(std::int64_t arena_bytes, std::span<const std::string> traded, std::int64_t limit);

/// The list of what was traded, in one line.
std::string join(std::span<const std::string> traded);

}  // namespace braid::scheduler
