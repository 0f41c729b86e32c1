#pragma once
// Predicts a run of a plan by playing its commands, event by event. Streams are in order and wait for events; nodes
// that run together and ask for more than the capacity slow each other in proportion, and pairs known to hinder each
// other slow each other further. A stream that has to wait loses a little time before it goes on.

#include <vector>

#include "scheduler/command_order.h"
#include "scheduler/plan.h"

namespace braid::scheduler {

/// A run of a plan, predicted. Times in microseconds from the start of the step.
struct Simulation {
  struct Run {
    double start = 0;
    double finish = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  std::vector<Run> runs;  ///< per node; 0 for views
  double makespan = 0;
  std::vector<double> busy;  ///< per stream: how long it was running a node
  /// The nodes that determine the makespan, first to last: each starts as soon as the one ahead of it is over, be it in
  /// its own stream or, after what a wait takes, by an event.
  std::vector<NodeId> critical_path;
};

/// Two nodes that run at once.
struct Overlap {
  NodeId first = kNoNode, second = kNoNode;  ///< first < second
  double microseconds = 0;
  friend bool operator==(const Overlap&, const Overlap&) = default;
};
/// All of them, the longest overlaps first.
std::vector<Overlap> overlaps(const Simulation& simulation);

/// Throws PlanError if the plan deadlocks. Looks at graph, costs, capacity, slow-downs and waits of the problem.
Simulation simulate(const Problem& problem, const Plan& plan);
/// The same with the order of the plan's commands at hand.
Simulation simulate(const Problem& problem, const Plan& plan, const CommandOrder& order);

/// Replaces the times that a policy predicted by those of a simulated run.
void take_simulated_times(const Problem& problem, Plan& plan);

}  // namespace braid::scheduler
