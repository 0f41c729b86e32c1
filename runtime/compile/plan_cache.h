#pragma once
// The plans of the steps that a session has seen. A structure seen before is found by its hash and compared.

#include <memory>
#include <unordered_map>

#include "runtime/compile/step_plans.h"

namespace braid {

class PlanCache {
 public:
  /// Host memory for the plans of the most recently used structures, and what a node of a plan counts. Most of it is
  /// code that oneDNN generates, or cuDNN's plans and the CUDA graph: 5 to 35 KiB were measured on CPU, 49 to 69 on
  /// CUDA. The structure that was used last stays, however large it is.
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  static constexpr std::int64_t node_bytes(DeviceType device) { return (device == DeviceType::cuda ? 80 : 40) << 10; }

  /// Tests may give graphs another hash.
  explicit PlanCache(
      Planner& planner, Hash (*hash)(const StepGraph&) = [](const StepGraph& graph) { return graph.hash(); },
      std::int64_t most_bytes = kMostBytes)
      : planner_(planner), hash_(hash), most_bytes_(most_bytes) {}

  /// The plans of a recorded graph; valid until the next call.
  StepPlans& find(const StepGraph& graph);
  /// Drops the plans of steps with parameters that have been released. No step may be running.
  void forget_released(const Context& context);
  /// The plans that were found last; null if there are none, or they have been dropped.
  StepPlans* last() const { return last_; }

  std::int64_t plans() const { return plans_; }
  std::int64_t hits() const { return hits_; }

 private:
  /// Host memory of all plans, as it is counted.
  std::int64_t bytes() const;

  struct Entry {
    std::unique_ptr<StepPlans> plans;
    std::int64_t last_use = 0;
  };

  Planner& planner_;
  Hash (*const hash_)(const StepGraph&);
  const std::int64_t most_bytes_;
  std::unordered_multimap<Hash, Entry> entries_;
  StepPlans* last_ = nullptr;
  std::int64_t plans_ = 0, hits_ = 0, clock_ = 0;
};

}  // namespace braid
