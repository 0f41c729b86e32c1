// Resource-aware launch order after Opara (Chen et al., "Opara: exploiting operator parallelism for expediting DNN
// inference on GPUs", 2023, section 4): among the nodes whose predecessors have all been placed, the one that asks for
// the least of the device is next, so that small nodes fill it before large ones block it. What a node asks for is its
// width times its duration, in capacity-microseconds; Opara, which knows one kernel per node, counts its blocks,
// registers and shared memory. A node goes to the stream of a predecessor if nothing was placed behind that, which
// saves a wait; of several, the one that finishes last. Else it goes to the stream that is free first.

#include <functional>
#include <queue>

#include "scheduler/policies/timeline.h"

namespace braid::scheduler {
namespace {

int choose_stream(const Problem& problem, const Timeline& timeline, NodeId node) {
  NodeId latest = kNoNode;
  for (const NodeId before : problem.edges.predecessors(node)) {
    const Placement& placement = timeline.placement(before);
    if (placement.stream >= problem.streams || timeline.last(placement.stream) != before) continue;
    if (latest == kNoNode || placement.finish > timeline.placement(latest).finish) latest = before;
  }
  return latest != kNoNode ? timeline.placement(latest).stream : timeline.first_free();
}

}  // namespace

Schedule resource_order(const Problem& problem) {
  using Hungry = std::pair<double, NodeId>;
  std::priority_queue<Hungry, std::vector<Hungry>, std::greater<>> ready;  // the least hungry first
  std::vector<int> missing(problem.graph.node_count());                    // predecessors that were not placed yet
  const auto add_ready = [&](NodeId node) {
    const Cost& cost = problem.costs.of(node, equal_share(problem, node));
    ready.emplace(cost.width * cost.duration, node);
  };
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    missing[node] = static_cast<int>(problem.edges.predecessors(node).size());
    if (missing[node] == 0 && !problem.graph.node(node).is_view) add_ready(node);
  }

  Timeline timeline(problem);
  while (!ready.empty()) {
    const NodeId node = ready.top().second;
    ready.pop();
    timeline.place(node, choose_stream(problem, timeline, node));
    for (const NodeId successor : problem.edges.successors(node)) {
      if (--missing[successor] == 0) add_ready(successor);
    }
  }
  return std::move(timeline).finish();
}

}  // namespace braid::scheduler
