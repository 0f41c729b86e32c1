// Breadth first: nodes at the same number of hops from the sources form a level, and the nodes of a level go to the
// streams in rotation. Like the round-robin capturer of Taskflow, it ignores costs.

#include <algorithm>

#include "scheduler/policies/timeline.h"

namespace braid::scheduler {

Schedule round_robin(const Problem& problem) {
  std::vector<NodeId> order = problem.graph.launched_nodes();
  std::vector<int> levels(problem.graph.node_count());
  for (const NodeId node : order) {
    for (const NodeId before : problem.edges.predecessors(node))
      levels[node] = std::max(levels[node], levels[before] + 1);
  }
  std::ranges::stable_sort(order, {}, [&](NodeId node) { return levels[node]; });

  Timeline timeline(problem);
  int level = 0, stream = 0;
  for (const NodeId node : order) {
    if (levels[node] != level) stream = 0;
    level = levels[node];
    timeline.place(node, stream);
    stream = (stream + 1) % problem.streams;
  }
  return std::move(timeline).finish();
}

}  // namespace braid::scheduler
