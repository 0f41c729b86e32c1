// Stream assignment of Nimble (Kwon et al., "Nimble: lightweight and parallel GPU task scheduling for deep learning",
// 2020, section 4.2). A maximum matching on the transitive reduction of the graph covers it by the fewest paths. With a
// stream for each path, any two nodes that could run at the same time are on different streams, and no such assignment
// needs fewer waits: one for each edge of the reduction outside of the matching. Nodes are placed in recording order.
// Where there are more paths than streams, each path joins the stream that is free first when its first node is placed.

#include "scheduler/policies/bipartite_matching.h"
#include "scheduler/policies/timeline.h"
#include "scheduler/policies/transitive_reduction.h"

namespace braid::scheduler {

Schedule matching(const Problem& problem) {
  const std::vector<NodeId> next = maximum_matching(transitive_reduction(problem.edges));
  std::vector<int> streams(problem.graph.node_count(), -1);  // per node: the stream of its path, once that has one
  Timeline timeline(problem);
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    if (problem.graph.node(node).is_view) continue;
    if (streams[node] < 0) streams[node] = timeline.first_free();
    timeline.place(node, streams[node]);
    if (next[node] != kNoNode) streams[next[node]] = streams[node];
  }
  return std::move(timeline).finish();
}

}  // namespace braid::scheduler
