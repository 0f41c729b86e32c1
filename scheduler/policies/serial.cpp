// The baseline. It needs no waits, so it is what every other schedule must beat.

#include <algorithm>

#include "scheduler/policy.h"

namespace braid::scheduler {

Schedule serial(const Problem& problem) {
  Schedule schedule;
  schedule.placements.resize(problem.graph.node_count());
  schedule.order = problem.graph.launched_nodes();
  for (const NodeId node : schedule.order) {
    const auto implementations = problem.costs.of(node);
    const auto fastest = std::ranges::min_element(implementations, {}, &Cost::duration);
    const double start = schedule.makespan;
    schedule.makespan += fastest->duration;
    schedule.placements[node] = {.implementation = static_cast<int>(fastest - implementations.begin()),
                                 .start = start,
                                 .finish = schedule.makespan};
  }
  return schedule;
}

}  // namespace braid::scheduler
