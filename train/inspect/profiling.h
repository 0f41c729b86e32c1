#pragma once
// Measures the nodes of a config's training step, and pairs of them.

#include <functional>

#include "runtime/profile/pair_profiler.h"
#include "train/config/config.h"

namespace braid {

struct ProfilingOptions {
  int runs = 5;     ///< measured steps at every width
  int pairs = 200;  ///< pairs of nodes to measure at most
  int streams = 0;  ///< of the plans that say which pairs run at once; 0: of 2, 4 and 8
  std::function<void(PairProgress)> on_pair = [](PairProgress) {};  ///< called ahead of every pair
};

/// Trains on one batch, at every width that the scheduler may choose, so many steps each that are measured, after some
/// that warm up. Then plans the step with what was measured, and measures the pairs of nodes that run at once. Throws
/// as Trainer does.
scheduler::Profile profile_training(const TrainConfig& config, const ProfilingOptions& options = {});

}  // namespace braid
