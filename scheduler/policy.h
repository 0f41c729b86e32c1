#pragma once
// A policy turns graph and costs into a schedule: for every node its stream, its place in it, and its implementation.
// Policies are interchangeable functions, one file each in scheduler/policies/.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/problem.h"

namespace braid::scheduler {

struct Placement {
  int stream = 0;
  int implementation = 0;  ///< index into costs.of(node)
  double start = 0;        ///< predicted, microseconds from the start of the step
  double finish = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Schedule {
  std::vector<Placement> placements;  ///< per node
  /// All nodes but views in a topological order; the nodes of one stream run in the order they have here.
  std::vector<NodeId> order;
  /// Pairs (before, after) to be kept in order although no data requires it, so that nodes that together ask for more
  /// than the capacity do not run at once.
  std::vector<std::pair<NodeId, NodeId>> resource_edges;
  double makespan = 0;  ///< microseconds
  /// The policy that made this schedule, if a policy chose among others; else empty.
  std::string_view kept = {};
};

using Policy = Schedule (*)(const Problem&);

/// Everything on stream 0, every node at its fastest width, in an order that frees memory early.
Schedule serial(const Problem& problem);

/// List scheduling by bottom level under the capacity model. Whenever capacity is free, the ready node with the longest
/// path ahead starts at the width that finishes it first; a wide start must not delay more important ready nodes. The
/// best of several sharing rules is improved by local search. Where the hardware oversubscribes, the times are those of
/// the simulator. Kwok and Ahmad, "Static scheduling algorithms" (1999), HLFET with moldable tasks.
Schedule critical_path(const Problem& problem);

/// Breadth first: deals the nodes of each level over the streams in rotation.
Schedule round_robin(const Problem& problem);

/// A minimum path cover of the transitive reduction: chains stay on a stream, with the fewest waits. Nimble (2020).
Schedule matching(const Problem& problem);

/// Dynamic programming over stages of groups that run at the same time. IOS (2021).
Schedule stages(const Problem& problem);

/// List scheduling in which the ready node that asks for the least of the device goes first. Opara (2023).
Schedule resource_order(const Problem& problem);

/// The main criterion when a node is given a stream.
enum class StreamPreference {
  few_waits,
  /// Starts that are not too early: where only its stream delays a node, one that lacked units follows a node that
  /// frees some.
  on_time,
  /// Few waits. A node whose result this step does not read, such as a weight update, may move behind the next nodes of
  /// its stream, until their waits cover its own.
  late_updates,
};

/// Gives every node a stream that is free when it starts, and makes `order` that of the starts
/// (scheduler/lowering/streams.cpp). Looks at the implementation, start and finish of every placement. Throws PlanError
/// if more nodes run at once than there are streams.
void assign_streams(const Problem& problem, Schedule& schedule,
                    StreamPreference preference = StreamPreference::few_waits);

/// Orders nodes that use the same capacity one after the other by resource edges, so that the schedule stays within the
/// capacity whatever the real durations are (scheduler/lowering/capacity.cpp). Throws PlanError if the schedule as
/// predicted exceeds it.
void add_capacity_edges(const Problem& problem, Schedule& schedule);

/// The schedule of all other policies that the simulator finds fastest; among ties, the one with fewer waits.
Schedule automatic(const Problem& problem);

struct NamedPolicy {
  std::string_view name;  ///< in configs
  Policy policy;
};
inline constexpr NamedPolicy kPolicies[] = {
    {"serial", serial}, {"critical_path", critical_path},   {"round_robin", round_robin}, {"matching", matching},
    {"stages", stages}, {"resource_order", resource_order}, {"auto", automatic},
};

/// A policy by its name in configs. Throws Error with the list of names if there is none.
Policy find_policy(std::string_view name);
std::vector<std::string> policy_names();

}  // namespace braid::scheduler
