#pragma once
// The input of the scheduler: a step graph, what its nodes cost, and the machine that they run on. Policies, lowering,
// memory planning, simulator and reports all take it whole.

#include "scheduler/costs/costs.h"
#include "scheduler/costs/interference.h"
#include "scheduler/costs/profile.h"

namespace braid::scheduler {

struct ScheduleLog;

/// The machine as the scheduler sees it.
struct Machine {
  int streams = 1;   ///< that compute, at least 1
  int capacity = 1;  ///< cores or SMs that concurrent nodes share
  /// The hardware interleaves nodes that together ask for more than the capacity, as a GPU does, so nothing needs to
  /// keep them apart.
  bool oversubscribes = false;
  double wait_microseconds = 0;  ///< from an event to the start of a stream that waits for it
  double host_microseconds = 0;  ///< that one host thread takes to launch a node; 0: a CUDA graph launches them all
  /// The number of links to other ranks. Each carries one node at a time and has its own stream, after those that
  /// compute. Only a plan on one stream runs its communication on the same stream as the rest.
  int links = 0;

  int all_streams() const { return streams + links; }
};

struct Problem : Machine {
  StepGraph graph;
  Edges edges;  ///< edges of the graph, and any further order that is required
  Costs costs;
  Interference interference = {};  ///< empty if nothing is known
  ScheduleLog* log = nullptr;      ///< records what is decided and why; may be null
};

/// The problem of a graph on a device. A profile adds interference and the time of a wait; its durations are expected
/// in the costs already (apply).
Problem make_problem(StepGraph graph, Costs costs, const DeviceInfo& device, int streams,
                     const Profile* profile = nullptr, bool tf32 = false);
/// The same for a machine of this capacity.
Problem make_problem(StepGraph graph, Costs costs, int streams, int capacity, bool oversubscribes = false);

/// How long nodes are predicted to take on a device.
struct CostModel {
  DeviceInfo device = {};            ///< of a rank, with its link to others
  std::vector<int> widths = {};      ///< that nodes may have (analytic_costs)
  bool tf32 = false;                 ///< whether f32 products may round to tf32
  bool direct = false;               ///< whether convolutions may only be direct
  const Profile* profile = nullptr;  ///< measurements, which replace estimates; may be null

  /// analytic_costs(), and what the profile knows better.
  Costs costs(const StepGraph& graph) const;
  Problem problem(StepGraph graph, int streams) const;
};

/// The problem of another graph made of the same nodes: its node i is, or recomputes, origin[i] of `problem`; kNoNode
/// takes no time.
Problem with_graph(const Problem& problem, StepGraph graph, std::span<const NodeId> origin);
/// The same graph with another order; nothing is logged.
Problem with_edges(Problem problem, Edges edges);
/// The same on another number of streams.
Problem with_streams(Problem problem, int streams);

/// No simulated plan of a problem is faster than the bound: at least max(D, W / capacity, fastest durations / streams,
/// those of the nodes on a link).
/// Where interference lets nodes share the capacity better than in proportion, the work counts for less (shared_work).
struct LowerBound {
  double depth = 0;  ///< D: the critical path, microseconds
  double work = 0;   ///< W: capacity-microseconds
  double bound = 0;  ///< microseconds
  friend bool operator==(const LowerBound&, const LowerBound&) = default;
};
LowerBound lower_bound(const Problem& problem);

/// Per node and implementation: the least share of the capacity that it takes, in capacity-microseconds. That is width
/// × duration, times the least product of factors below 1 that nodes in the other streams can give it.
std::vector<std::vector<double>> shared_work(const Problem& problem);

/// Throws PlanError if a problem has no solution: no stream, no capacity, or costs that are invalid or of another
/// graph.
void check_problem(const Problem& problem);

}  // namespace braid::scheduler
