#pragma once
// Predicts a run of a plan by playing its commands, event by event. Streams are in order and wait for events; nodes
// that run together and ask for more than the capacity slow each other in proportion, and pairs known to hinder each
// other slow each other further.

#include <vector>

#include "scheduler/plan.h"

namespace braid {

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
  /// The nodes that determine the makespan, first to last: each could not start before the one ahead of it was over, be
  /// it in its own stream or by an event.
  std::vector<NodeId> critical_path;
};

/// Throws PlanError if the plan deadlocks. Looks at graph, costs, capacity and slow-downs of the problem.
Simulation simulate(const Problem& problem, const Plan& plan);

/// Replaces the times that a policy predicted by those of a simulated run.
void take_simulated_times(const Problem& problem, Plan& plan);

}  // namespace braid
