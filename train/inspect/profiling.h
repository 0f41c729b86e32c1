#pragma once
// Measures the nodes of a config's training step, and pairs of them.

#include <functional>

#include "runtime/profile/pair_profiler.h"
#include "train/config/config.h"

namespace braid {

struct ProfilingOptions {
  int runs = 5;     ///< measured steps at every width
  int pairs = 200;  ///< limit of the pairs of nodes to measure
  int streams = 0;  ///< of the plans that determine which pairs run concurrently; 0: plans with 2, 4 and 8
  /// Called with the times of the nodes, before pairs are measured.
  std::function<void(const scheduler::Profile&)> on_nodes = [](const scheduler::Profile&) {};
  std::function<void(PairProgress)> on_pair = [](PairProgress) {};  ///< called before every pair
};

/// Trains on one batch at every width that the scheduler may choose, and measures `runs` steps each, after some steps
/// to warm up. Then plans the step with these costs, and measures the pairs of nodes that run concurrently. Throws the
/// same errors as Trainer.
scheduler::Profile profile_training(const TrainConfig& config, const ProfilingOptions& options = {});

}  // namespace braid
