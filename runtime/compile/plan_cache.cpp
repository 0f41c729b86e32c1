#include "runtime/compile/plan_cache.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace braid {

namespace {}  // namespace

StepPlans& PlanCache::find(const StepGraph& graph) {
  const Hash key = hash_(graph);
  const auto [first, last] = entries_.equal_range(key);
  auto found = std::find_if(first, last, [&](const auto& item) { return item.second.plans->graph().covers(graph); });
  if (found != last) {
    ++hits_;
  } else {
    while (!entries_.empty() && nodes_ + graph.node_count() > most_nodes_) {
      streams_.synchronize();  // the evicted plan may be running
      const auto oldest = std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second.last_use; });
      nodes_ -= oldest->second.nodes;
      entries_.erase(oldest);
    }
    found = entries_.emplace(key, Entry{std::make_unique<StepPlans>(graph, planner_), graph.node_count()});
    nodes_ += graph.node_count();
    ++plans_;
  }
  found->second.last_use = ++clock_;
  return *found->second.plans;
}

}  // namespace braid
