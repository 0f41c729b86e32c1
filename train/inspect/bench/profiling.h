#pragma once
// Measures the nodes of a config's training step, pairs of them, and the link between ranks.

#include <functional>

#include "runtime/profile/link_profiler.h"
#include "runtime/profile/pair_profiler.h"
#include "train/config/config.h"

namespace braid {

struct ProfilingOptions {
  int runs = 5;     ///< at least 1: measured steps at every width; not on CUDA
  int pairs = 200;  ///< limit of the pairs of nodes to measure
  int streams = 0;  ///< streams of the plans that determine which pairs run concurrently; 0: plans with 2, 4 and 8
  std::function<void(PairProgress)> on_pair = [](PairProgress) {};  ///< called before every pair
};

/// On CPU, trains on one batch at every width that the scheduler may choose, and measures `runs` steps each, after some
/// steps to warm up. On CUDA, times every implementation of every node alone. Throws the same errors as Trainer.
scheduler::Profile profile_nodes(const TrainConfig& config, const ProfilingOptions& options = {});
/// Plans the step with the profile's costs, and measures the pairs of nodes that run concurrently; they replace the
/// profile's pairs.
void profile_pairs(const TrainConfig& config, const ProfilingOptions& options, scheduler::Profile& profile);

/// Times collectives between the ranks that join_ranks() has joined, and fits the link of the profile to them. All
/// ranks must call it, and get the same. Throws Error if there is one rank.
struct LinkProfile {
  scheduler::Profile profile;
  std::vector<CallTime> times = {};
};
LinkProfile profile_link(const TrainConfig& config);
/// Each collective as measured and with the link of the profile, and how far the link is off.
std::string to_text(const LinkProfile& measured, int ranks);

}  // namespace braid
