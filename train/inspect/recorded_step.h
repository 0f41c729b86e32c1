#pragma once
// A training step of a config, or its forward pass, recorded but not run, for planning. It touches no device.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/step_graph.h"
#include "ops/rewrites/partition.h"
#include "train/config/config.h"

namespace braid {

struct RecordedStep {
  std::vector<std::string> models;  ///< one per job
  std::vector<std::string> jobs;    ///< their names
  std::vector<Shape> inputs;        ///< [N,H,W,C] of each
  StepGraph graph;                  ///< for planning: values without a reader are kept as results
  std::vector<int> owners;          ///< per node: its job
  std::vector<std::string>
      layers;                ///< per node: the layer that recorded it, or whose gradient it is part of; may be empty
  ops::Partition partition;  ///< over several ranks
};

/// Several ranks, on each of which a job has its whole batch size; the step is that of one of them.
struct RecordedRanks {
  int count = 1;
  int steps = 1;  ///< steps recorded as one
  /// The partition with buckets.
  std::function<ops::Partition(const StepGraph& recorded, const ops::Partition& partition)> with_buckets = {};
};

/// Records forward, backward and update of all jobs, on several numbers of ranks with the same models.
class StepRecorder {
 public:
  /// `batch_size`: of every job; 0: the config's. With `forward`, only what inference needs: the models in evaluation
  /// mode, up to the logits. Throws the same errors as Trainer if there is no such model or data set.
  explicit StepRecorder(const RunConfig& config, std::int64_t batch_size = 0, bool forward = false);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  RecordedStep record(const RecordedRanks& ranks = {});

 private:
  class ImaginedRanks;
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

/// The models and their inputs: "resnet20, images [32,28,28,1] and …".
std::string describe(const RecordedStep& step);

}  // namespace braid
