#pragma once
// Measures the nodes of a config's training step, and pairs of them.

#include <functional>

#include "runtime/profile/pair_profiler.h"
#include "train/config/config.h"

namespace braid {

struct ProfilingOptions {
  int runs = 5;     ///< measured steps at every width; not on CUDA
  int pairs = 200;  ///< limit of the pairs of nodes to measure
  int streams = 0;  ///< of the plans that determine which pairs run concurrently; 0: plans with 2, 4 and 8
  std::function<void(PairProgress)> on_pair = [](PairProgress) {};  ///< called before every pair
};

/// On CPU, trains on one batch at every width that the scheduler may choose, and measures `runs` steps each, after some
/// steps to warm up. On CUDA, times every implementation of every node alone. Throws the same errors as Trainer.
scheduler::Profile profile_nodes(const TrainConfig& config, const ProfilingOptions& options = {});
/// Plans the step with the profile's costs, and measures the pairs of nodes that run concurrently; they replace the
/// profile's pairs. On CUDA, by CUPTI while there is a cuda::KernelTracing.
void profile_pairs(const TrainConfig& config, const ProfilingOptions& options, scheduler::Profile& profile);

}  // namespace braid
