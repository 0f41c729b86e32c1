#pragma once
// What a training step asks of a GPU, counted on the recorded device.

#include <cstdint>

#include "train/config/config.h"

namespace braid::testing {

struct StepCounts {
  std::int64_t kernels = 0;      ///< launches, copies and fills of the plan's nodes; a call of a library counts as one
  std::int64_t waits = 0;        ///< waits of one stream for another, forking and joining streams included
  std::int64_t graph_nodes = 0;  ///< nodes of the CUDA graph that the step becomes
  std::int64_t chain = 0;        ///< kernels on the longest path of dependent nodes
  double bytes = 0;              ///< that the nodes read and write at least: the sum of their Work::bytes
  double flops = 0;              ///< the sum of their Work::flops
};

/// Runs the step of a config launch by launch and then as a CUDA graph. It must train on CUDA, with a number of
/// streams, and not compare plans. Resets the recording. Throws Error if what is launched is not the plan, or nothing
/// is captured.
StepCounts count_step(const TrainConfig& config);

}  // namespace braid::testing
