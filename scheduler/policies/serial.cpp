// The baseline: everything on stream 0 in recording order, one node after another at its fastest width. It needs no
// waits, so it is what every other schedule must beat.

#include <algorithm>

#include "scheduler/policy.h"

namespace braid::scheduler {

Schedule serial(const Problem& problem) {
  Schedule schedule;
  schedule.placements.resize(problem.graph.node_count());
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    if (problem.graph.node(node).is_view) continue;
    const auto implementations = problem.costs.of(node);
    const auto fastest = std::ranges::min_element(implementations, {}, &Cost::duration);
    const double start = schedule.makespan;
    schedule.makespan += fastest->duration;
    schedule.placements[node] = {.implementation = static_cast<int>(fastest - implementations.begin()),
                                 .start = start,
                                 .finish = schedule.makespan};
    schedule.order.push_back(node);
  }
  return schedule;
}

}  // namespace braid::scheduler
