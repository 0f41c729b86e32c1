#pragma once
// Concurrency for memory. A policy that looks at time alone runs ahead: it starts branches long before what they make
// is needed, and their values lie around. So the step is recorded anew in an order that needs little memory, and the
// policy may only choose among the next few nodes of it: a node may start once all that are `window` or more places
// ahead of it are over. A window of 1 is that order itself, one node after another; a large one leaves the policy free.

#include <span>

#include "scheduler/policy.h"

namespace braid::scheduler {

/// A step with its nodes recorded in another order, so that policies take it for the step's own.
class ReorderedStep {
 public:
  /// `order` has all nodes but views in a topological order.
  ReorderedStep(const Problem& problem, std::span<const NodeId> order);

  Problem problem(int streams) const { return with_streams(problem_, streams); }
  /// The schedule of the original step.
  Schedule restore(const Schedule& schedule) const;

 private:
  void add_node(NodeId id, std::span<const ValueId> inputs);
  void add_value(ValueId id, ValueId name);

  const Problem& before_;
  StepGraph graph_;  // until it has all nodes
  Problem problem_;
  std::vector<NodeId> original_;            // per node here
  std::vector<NodeId> reordered_;           // per node there
  std::vector<ValueId> reordered_value_;    // per value there
  std::vector<std::vector<NodeId>> views_;  // per value there: nodes that only look at it
};

/// What the policy makes of a problem within a window over the order of recording. Nothing keeps nodes within the
/// window if durations are not as predicted. Throws PlanError if the window is less than 1.
Schedule schedule_within_window(const Problem& problem, Policy policy, int window);

/// Makes sure of the window of such a schedule by extra edges, so that memory need not be laid out for what nodes might
/// do without.
void add_window_edges(const Problem& problem, int window, Schedule& schedule);

/// What the policy makes of a problem within a window over the memory order.
Schedule lean_schedule(const Problem& problem, Policy policy, int window);

}  // namespace braid::scheduler
