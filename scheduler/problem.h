#pragma once
// What the scheduler is asked: a step graph, what its nodes cost, and the machine that they run on. Policies, lowering,
// memory planning, simulator and reports all take it whole.

#include "scheduler/costs/costs.h"
#include "scheduler/costs/interference.h"
#include "scheduler/costs/profile.h"

namespace braid::scheduler {

struct ScheduleLog;

struct Problem {
  StepGraph graph;
  Edges edges;  ///< those of the graph, and any further order that is asked for
  Costs costs;
  Interference interference;  ///< empty if nothing is known
  int streams = 1;            ///< streams to use, at least 1
  int capacity = 1;           ///< cores or SMs that concurrent nodes share
  /// The hardware interleaves nodes that together ask for more than the capacity, as a GPU does: then nothing needs to
  /// keep them apart.
  bool oversubscribes = false;
  double wait_microseconds = 0;  ///< from an event to the start of a stream that waits for it
  ScheduleLog* log = nullptr;    ///< told what is decided and why; may be null
};

/// The problem of a graph on a device. A profile adds interference and the time of a wait; its durations are expected
/// in the costs already (apply).
Problem make_problem(StepGraph graph, Costs costs, const DeviceInfo& device, int streams,
                     const Profile* profile = nullptr, bool tf32 = false);
/// The same for a machine of this capacity.
Problem make_problem(StepGraph graph, Costs costs, int streams, int capacity, bool oversubscribes = false);

/// The problem of another graph made of the same nodes: its node i is, or repeats, origin[i] of `problem`; kNoNode
/// takes no time.
Problem with_graph(const Problem& problem, StepGraph graph, std::span<const NodeId> origin);
/// The same graph with another order; nothing is logged.
Problem with_edges(Problem problem, Edges edges);
/// The same on another number of streams.
Problem with_streams(Problem problem, int streams);

/// Throws PlanError if a problem has no solution: no stream, no capacity, costs of other nodes or that make no sense.
void check_problem(const Problem& problem);

}  // namespace braid::scheduler
