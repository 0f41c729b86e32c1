#pragma once
// Trades concurrency for memory. A policy that looks at time alone starts branches long before their results are
// needed, and these take up memory. So the step is put in the order of `serial`, and the policy may only
// choose among the next few nodes: a node may start once all that are `window` or more places ahead of it have
// finished. A window of 1 is that order itself, one node after another; a large one leaves the policy free.

#include <span>

#include "scheduler/policy.h"

namespace braid::scheduler {

/// A step with its nodes recorded in another order, which policies then take as recording order.
class ReorderedStep {
 public:
  /// `order` has all nodes but views in a topological order.
  ReorderedStep(const Problem& problem, std::span<const NodeId> order);

  Problem problem(int streams) const { return with_streams(problem_, streams); }
  /// The schedule of the original step.
  Schedule restore(const Schedule& schedule) const;

 private:
  Problem problem_;
  std::vector<NodeId> original_;   // per node here
  std::vector<NodeId> reordered_;  // per node there
};

/// The policy's schedule of a problem within a window over recording order. Nothing enforces the window if durations
/// differ from the prediction. Throws PlanError if the window is less than 1.
Schedule schedule_within_window(const Problem& problem, Policy policy, int window);

/// Enforces the window of such a schedule by resource edges, so that memory planning can rely on it.
void add_window_edges(const Problem& problem, int window, Schedule& schedule);

/// The policy's schedule of a problem within a window over the order of `serial`.
Schedule lean_schedule(const Problem& problem, Policy policy, int window);

}  // namespace braid::scheduler
