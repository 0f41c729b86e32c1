#pragma once
// The plans of the steps that a session has seen. A structure seen before is found by its hash and compared.

#include <memory>
#include <unordered_map>

#include "runtime/compile/step_plans.h"

namespace braid {

class PlanCache {
 public:
  /// Tests may give graphs another hash.
  PlanCache(
      StreamGroup& streams, Planner& planner,
      Hash (*hash)(const StepGraph&) = [](const StepGraph& graph) { return graph.hash(); })
      : streams_(streams), planner_(planner), hash_(hash) {}

  /// The plans of a recorded graph; valid until the next call.
  StepPlans& find(const StepGraph& graph);

  std::int64_t plans() const { return plans_; }
  std::int64_t hits() const { return hits_; }

 private:
  struct Entry {
    std::unique_ptr<StepPlans> plans;
    std::int64_t last_use = 0;
  };

  StreamGroup& streams_;
  Planner& planner_;
  Hash (*const hash_)(const StepGraph&);
  std::unordered_multimap<Hash, Entry> entries_;
  std::int64_t plans_ = 0, hits_ = 0, clock_ = 0;
};

}  // namespace braid
