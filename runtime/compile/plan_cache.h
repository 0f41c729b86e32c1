#pragma once
// The plans of the steps that a session has seen. A structure seen before is found by its hash and compared.

#include <memory>
#include <unordered_map>

#include "runtime/compile/step_plans.h"

namespace braid {

class PlanCache {
 public:
  /// The cache keeps the most recently used structures, up to this many nodes in total. A node of ResNet-18 takes 20 to
  /// 35 KiB of host memory, most of it code that oneDNN generates: about 1 GiB in total.
  static constexpr std::int64_t kMostNodes = 32768;

  /// Tests may give graphs another hash.
  PlanCache(
      StreamGroup& streams, Planner& planner,
      Hash (*hash)(const StepGraph&) = [](const StepGraph& graph) { return graph.hash(); },
      std::int64_t most_nodes = kMostNodes)
      : streams_(streams), planner_(planner), hash_(hash), most_nodes_(most_nodes) {}

  /// The plans of a recorded graph; valid until the next call.
  StepPlans& find(const StepGraph& graph);
  /// Drops the plans of steps with parameters that have been released. No step may be running.
  void forget_released(const Context& context);
  /// Whether these plans are still in the cache.
  bool holds(const StepPlans* plans) const;

  std::int64_t plans() const { return plans_; }
  std::int64_t hits() const { return hits_; }

 private:
  struct Entry {
    std::unique_ptr<StepPlans> plans;
    std::int64_t nodes;
    std::int64_t last_use = 0;
  };

  StreamGroup& streams_;
  Planner& planner_;
  Hash (*const hash_)(const StepGraph&);
  const std::int64_t most_nodes_;
  std::unordered_multimap<Hash, Entry> entries_;
  std::int64_t plans_ = 0, hits_ = 0, clock_ = 0;
  std::int64_t nodes_ = 0;  // of all entries
};

}  // namespace braid
