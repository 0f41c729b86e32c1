#include "runtime/compile/plan_cache.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace braid {

namespace {

/// The most structures kept; beyond, the least recently used is evicted. PathNet-like training sees a new one per step.
constexpr std::size_t kMaxEntries = 512;
/// The most structures that keep filters: full batches and a last one, of two models.
constexpr std::size_t kMostWithFilters = 4;

}  // namespace

StepPlans& PlanCache::find(const StepGraph& graph) {
  const Hash key = hash_(graph);
  const auto [first, last] = entries_.equal_range(key);
  auto found = std::find_if(first, last, [&](const auto& item) { return item.second.plans->graph().covers(graph); });
  if (found != last) {
    ++hits_;
    const Executable* executable = found->second.plans->current();
    if (executable != nullptr && executable->keeps_filters() && !executable->holds_filters()) release_filters();
  } else {
    release_filters();
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

void PlanCache::release_filters() {
  std::vector<Entry*> holders;
  for (auto& [hash, entry] : entries_) {
    const Executable* executable = entry.plans->current();
    if (executable != nullptr && executable->holds_filters()) holders.push_back(&entry);
  }
  if (holders.size() < kMostWithFilters) return;
  std::ranges::sort(holders, std::ranges::greater{}, &Entry::last_use);
  streams_.synchronize();  // they may be running
  for (Entry* entry : std::span(holders).subspan(kMostWithFilters - 1)) entry->plans->current()->release_filters();
}

}  // namespace braid
