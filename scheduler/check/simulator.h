#pragma once
// Predicts a run of a plan by discrete-event simulation of its commands. Streams run in order and wait for events;
// concurrent nodes that ask for more than the capacity slow each other down in proportion, and pairs with known
// interference slow each other down further. A stream that waits takes a little time to resume. Without a CUDA graph,
// no node starts before a host thread has launched it and all those before it.

#include <span>
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
  /// The nodes that determine the makespan, first to last: each starts as soon as the one before it has finished, in
  /// its own stream or, through an event, after the cost of a wait.
  std::vector<NodeId> critical_path;
};

/// Two nodes that run at once.
struct Overlap {
  NodeId first = kNoNode, second = kNoNode;  ///< first < second
  double microseconds = 0;
  friend bool operator==(const Overlap&, const Overlap&) = default;
};
/// All overlaps, the longest first.
std::vector<Overlap> overlaps(const Simulation& simulation);

/// Throws PlanError if the plan deadlocks. Uses graph, costs, capacity, interference and wait cost of the problem.
Simulation simulate(const Problem& problem, const Plan& plan);
/// The same, given the order of the plan's commands.
Simulation simulate(const Problem& problem, const Plan& plan, const CommandOrder& order);

/// The problem of a rank on which computing takes `times` times as long.
Problem slowed(Problem problem, double times);

/// The plan of one rank.
struct RankPlan {
  const Problem* problem = nullptr;
  const Plan* plan = nullptr;
};
/// Simulates all ranks: a collective starts when every rank has reached it, a message when its two ranks have. One rank
/// may represent all ranks with the same plan. Throws PlanError if a rank waits forever.
std::vector<Simulation> simulate(std::span<const RankPlan> ranks);

/// Replaces the times that a policy predicted by those of a simulated run.
void take_simulated_times(const Problem& problem, Plan& plan);

}  // namespace braid::scheduler
