#pragma once
// A training step of a config, or its forward pass, recorded but not run, for planning. It touches no device.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/step_graph.h"
#include "ops/rewrites/partition.h"
#include "scheduler/pipeline.h"
#include "scheduler/policy.h"
#include "train/run/job/learner.h"

namespace braid {

struct RecordedStep {
  std::vector<std::string> models;  ///< one per job
  std::vector<std::string> jobs;    ///< their names
  std::vector<Shape> inputs;        ///< [N,H,W,C] of each
  StepGraph graph;                  ///< for planning: values without a reader are kept as results
  std::vector<int> owners;          ///< per node: its job
  std::vector<std::string>
      layers;  ///< per node: the layer that recorded it, or whose gradient it is part of; may be empty
  std::vector<std::string> forward_layers;  ///< in the order of the forward pass, of all stages
  ops::Partition partition;                 ///< over several ranks
  Strategy strategy;                        ///< likewise
  /// The steps of all stages of a pipeline, of which `graph` is the first; empty if there are none.
  std::vector<StepGraph> stages = {};
  scheduler::PipelineOrder order = {};  ///< of the stages
};

/// Several ranks, on each of which a job has its whole batch size; the step is that of one of them.
struct RecordedRanks {
  int count = 1;
  int steps = 1;           ///< steps recorded as one
  bool are_alike = true;   ///< else the strategy auto takes no pipeline
  DeviceInfo device = {};  ///< of each, with its link
  /// Buckets are chosen for plans by this policy on as many streams.
  int streams = 1;
  scheduler::Policy policy = scheduler::serial;
};

/// Records forward, backward and update of all jobs, on several numbers of ranks.
class StepRecorder {
 public:
  /// `batch_size`: of every job; 0: the config's. With `forward`, only what inference needs: the models in evaluation
  /// mode, up to the logits. Throws the same errors as Trainer if there is no such model or data set.
  StepRecorder(const RunConfig& config, std::int64_t batch_size, bool forward);

  /// Sets ParallelOptions::strategy.
  void use(const std::string& strategy) { config_.jobs.front().training.session.parallel.strategy = strategy; }
  RecordedStep record(const RecordedRanks& ranks);

 private:
  class ImaginedRanks;

  void prepare(const RecordedRanks& ranks);
  void record_job(std::size_t job, int steps);
  void finish(RecordedStep& recorded, RewrittenGraph planned);

  RunConfig config_;
  const bool forward_;
  int micro_batches_ = 0;            // of a pipeline; 0: default_micro_batches()
  bool keeps_whole_tensors_ = true;  // no rank has only parts of parameters and states
  const std::shared_ptr<ImaginedRanks> ranks_;
  DatasetPool datasets_;
  std::unique_ptr<Session> session_;
  std::deque<Learner> learners_;
  std::vector<Batch> batches_;
};

/// The models and their inputs: "resnet20, images [32,28,28,1] and …".
std::string describe(const RecordedStep& step);

}  // namespace braid
