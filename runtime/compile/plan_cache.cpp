#include "runtime/compile/plan_cache.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace braid {

namespace {

/// The most structures kept; beyond, the least recently used is evicted. PathNet-like training sees a new one per step.
constexpr std::size_t kMaxEntries = 512;

}  // namespace

StepPlans& PlanCache::find(const StepGraph& graph) {
  const Hash key = hash_(graph);
  const auto [first, last] = entries_.equal_range(key);
  auto found = std::find_if(first, last, [&](const auto& item) { return item.second.plans->graph().covers(graph); });
  if (found != last) {
    ++hits_;
  } else {
    if (entries_.size() == kMaxEntries) {
      streams_.synchronize();  // the evicted plan may be running
      entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& item) { return item.second.last_use; }));
    }
    found = entries_.emplace(key, Entry{std::make_unique<StepPlans>(graph, planner_)});
    ++plans_;
  }
  found->second.last_use = ++clock_;
  return *found->second.plans;
}

}  // namespace braid
