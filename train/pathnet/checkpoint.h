#pragma once
// What a PathNet run saves after a generation, in addition to the tensors of its net: the finished evolutions and the
// state of the current one.

#include <cstdint>
#include <string>
#include <vector>

#include "train/pathnet/run.h"
#include "train/pathnet/tournament.h"

namespace braid {

struct PathNetState {
  std::vector<TaskRun> finished = {};  ///< in the order in which they run, seed after seed
  TaskRun current = {};                ///< so far
  Evolution::State evolution = {};     ///< state of the current one
  std::vector<CandidateTrainer::Position> batches = {};
  std::uint64_t metrics_bytes = 0;

  std::int64_t generations() const;  ///< generations of all evolutions
};

/// Evolutions of a seed: tasks A and B, B from scratch, and if A's path is always active, B with it untrained.
std::size_t evolutions_of_seed(const PathNetConfig& config);
std::string to_json(const PathNetState& state);
/// Throws JsonError if it is not the state of a run with this config.
PathNetState read_pathnet_state(const std::string& text, const PathNetConfig& config);

}  // namespace braid
