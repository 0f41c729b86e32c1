#include "scheduler/memory/sharing_edges.h"

#include <algorithm>

#include "scheduler/memory/lifetimes.h"

namespace braid::scheduler {

std::vector<std::pair<NodeId, NodeId>> sharing_edges(const Problem& problem, const Schedule& schedule,
                                                     const Plan& plan) {
  constexpr std::int64_t kLargeShare = 64;
  const Lifetimes lifetimes(problem.graph, plan);
  const CommandOrder order(plan.commands, problem.graph.node_count());
  std::vector<std::int32_t> place(schedule.placements.size(), -1);
  for (std::int32_t i = 0; const NodeId node : schedule.order) place[node] = i++;

  std::vector<std::pair<NodeId, NodeId>> edges;
  for (const ValueBlock& block : lifetimes.blocks()) {
    if (block.first == kNoNode || block.bytes * kLargeShare < plan.live_bytes) continue;
    for (std::size_t stream = 0; stream < order.streams(); ++stream) {
      const auto over = [&](NodeId node) {
        return schedule.placements[node].finish <= schedule.placements[block.first].start &&
               place[node] < place[block.first];
      };
      const auto launched = order.launched(stream);
      const auto end = std::ranges::partition_point(launched, over);
      if (end == launched.begin() || order.before(*std::prev(end), block.first)) continue;
      edges.emplace_back(*std::prev(end), block.first);
    }
  }
  std::ranges::sort(edges);  // a node may write several values first
  edges.erase(std::ranges::unique(edges).begin(), edges.end());
  return edges;
}

}  // namespace braid::scheduler
