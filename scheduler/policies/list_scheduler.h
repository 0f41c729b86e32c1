#pragma once
// One run of the list scheduler (HLFET in Kwok and Ahmad, "Static scheduling algorithms", 1999), for policies that try
// several and keep the best.

#include <utility>
#include <vector>

#include "scheduler/policy.h"
#include "scheduler/schedule_log.h"

namespace braid::scheduler {

/// How wide a node may start while others are ready.
enum class Sharing {
  equal,     ///< free capacity divided among the ready nodes
  balanced,  ///< equal shares, or one wide node after another where that finishes the ready nodes earlier
  fastest,   ///< every node at the width that finishes it first
};

constexpr int kAnyImplementation = -1;

/// The rules of one run of the list scheduler.
struct ListRules {
  Sharing sharing = Sharing::balanced;
  /// How much of the capacity nodes may ask for together, at least 1. More than 1 only where the hardware
  /// oversubscribes: nodes that together ask for more than there is slow each other down in proportion.
  double oversubscription = 1;
  /// The last this many free streams go to the ready node that comes closest to filling the free units, so that narrow
  /// nodes run alongside wide ones.
  int fitted_streams = 0;
  std::vector<double> priorities = {};    ///< per node: of the ready nodes the one with the largest starts first
  std::vector<int> implementations = {};  ///< per node, or kAnyImplementation; empty: any for all
  /// Pairs (first, second): the second node waits until the first has started, though it may be ready before.
  std::vector<std::pair<NodeId, NodeId>> start_orders = {};
};

/// Sets implementation, start and finish of every placement, order and makespan; not the streams. Nodes whose start
/// orders contradict each other are missing from the order. Records every decision in `log` if there is one.
Schedule list_schedule(const Problem& problem, const ListRules& rules, ScheduleLog::Attempt* log = nullptr);

/// One run by bottom levels and equal shares, which a reader can redo by hand: what critical_path() improves.
Schedule plain_list(const Problem& problem);

/// Priorities where there are links: computation in recording order, and communication by these bottom levels. By
/// bottom level alone, gradients of weights are computed last, because little follows them, and links are idle until
/// then.
std::vector<double> recording_priorities(const Problem& problem, std::vector<double> levels);

}  // namespace braid::scheduler
