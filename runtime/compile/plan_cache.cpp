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
    const std::int64_t added = graph.node_count() * node_bytes(planner_.device_type());
    while (entries_.size() > 1 && bytes() + added > most_bytes_) {
      planner_.streams().synchronize();  // the evicted plan may be running
      const auto oldest = std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second.last_use; });
      entries_.erase(oldest);
    }
    found = entries_.emplace(key, Entry{std::make_unique<StepPlans>(graph, planner_)});
    ++plans_;
  }
  found->second.last_use = ++clock_;
  last_ = found->second.plans.get();
  return *last_;
}

std::int64_t PlanCache::bytes() const {
  std::int64_t nodes = 0;
  for (const auto& [key, entry] : entries_) nodes += entry.plans->made() * entry.plans->graph().node_count();
  return nodes * node_bytes(planner_.device_type());
}

void PlanCache::forget_released(const Context& context) {
  std::erase_if(entries_, [&](const auto& item) {
    const StepPlans* const plans = item.second.plans.get();
    const bool released = std::ranges::any_of(plans->graph().values(), [&](const Value& value) {
      return value.slot >= 0 && context.parameter(value.slot).released();
    });
    if (released && plans == last_) last_ = nullptr;
    return released;
  });
}

}  // namespace braid
