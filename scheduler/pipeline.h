#pragma once
// The order in which the stages of a pipeline run their micro-batches. A stage runs the forward pass of a micro-batch
// after the stage before it, and the backward pass after the stage after it. The part of the backward pass that other
// stages wait for may be separated from the gradients of its own weights, which fill time that would be idle (Qi et
// al., "Zero Bubble Pipeline Parallelism", 2024).

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::scheduler {

/// What a stage computes for a micro-batch.
enum class Pass : std::uint8_t { forward, backward, weights };

/// How long a stage computes for each micro-batch, and its messages take to the stage after it, or back; microseconds.
struct StageTimes {
  double forward = 0, backward = 0, weights = 0;
  double message = 0;
};

struct PipelineTask {
  int stage = 0;
  int micro_batch = 0;
  Pass pass = Pass::forward;
  double start = 0, finish = 0;
};

struct PipelineOrder {
  std::string name;
  std::vector<PipelineTask> tasks;  ///< each after those that it needs
  bool splits_backward = false;     ///< whether gradients of weights are separate tasks, not a part of backward
  double makespan = 0;
  /// Per stage, the largest number of micro-batches whose activations it holds at once.
  std::vector<int> in_flight;
};

/// The names of orders:
///   gpipe  all forward passes before all backward passes (Huang et al., 2019)
///   1f1b   one forward, one backward pass, so that stage s of p holds at most p - s micro-batches (PipeDream, 2019)
///   zb_h1  the same with gradients of weights apart, those of stage s later by s micro-batches; it holds at most p
///   auto   the shortest of 1f1b, zb_h1, and list schedules that hold at most p
inline const std::vector<std::string> kPipelines{"auto", "gpipe", "1f1b", "zb_h1"};

/// Throws Error on an unknown name. Without a backward pass, all orders are the same.
PipelineOrder pipeline_order(std::string_view name, std::span<const StageTimes> stages, int micro_batches,
                             bool has_backward = true);

/// The first layer of each stage but the first, so that the longest stage is as short as possible. `microseconds` has
/// the time of each layer, `cut` that of the messages if a stage begins with it. Throws Error if there are fewer layers
/// than stages.
std::vector<std::size_t> balanced_stages(std::span<const double> microseconds, std::span<const double> cut,
                                         std::size_t stages);

}  // namespace braid::scheduler
