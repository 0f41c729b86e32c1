#include "runtime/compile/plan_cache.h"

#include <algorithm>

namespace braid {

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

bool PlanCache::holds(const StepPlans* plans) const {
  return std::ranges::any_of(entries_, [&](const auto& item) { return item.second.plans.get() == plans; });
}

void PlanCache::forget_released(const Context& context) {
  std::erase_if(entries_, [&](const auto& item) {
    const Entry& entry = item.second;
    const bool released = std::ranges::any_of(entry.plans->graph().values(), [&](const Value& value) {
      return value.slot >= 0 && context.parameter(value.slot).released();
    });
    if (released) nodes_ -= entry.nodes;
    return released;
  });
}

}  // namespace braid
