#pragma once
// Measures what a training step costs in addition to its computation: the same steps on one resident batch, on batches
// of the loader, with a log of every step, and with a checkpoint. The parts alternate, so that all see the same
// machine.

#include <string>

#include "core/base/median.h"
#include "data/loader/loader.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/job/learner.h"
#include "train/run/log/run_folder.h"

namespace braid {

class IoBench {
 public:
  /// Builds model and loader, and a run folder, which the destructor removes. Throws the same errors as Trainer.
  explicit IoBench(const TrainConfig& config);
  ~IoBench();
  IoBench(const IoBench&) = delete;
  IoBench& operator=(const IoBench&) = delete;

  struct Times {
    std::int64_t rounds = 0, steps = 0;
    double step_seconds = 0;  ///< seconds of a step alone; median
    /// Times of the steps of a round, relative to the steps alone: with batches from a loader, with each step logged,
    /// and with one checkpoint per round.
    Quartiles loading, logging, saving;
    std::uintmax_t checkpoint_bytes = 0;  ///< size of the training state
  };
  /// Each round takes `steps` steps of each kind.
  Times run(std::int64_t rounds, std::int64_t steps);

 private:
  /// Runs steps on batches that `next` gives, and calls `after` once each is started. Returns seconds.
  template <class Next, class After>
  double time(std::int64_t steps, const Next& next, const After& after);
  void load(Batch& batch);
  void log();
  void save();

  TrainConfig config_;
  Session session_;
  std::shared_ptr<const ImageDataset> dataset_;
  Batch batch_;
  Loader loader_;
  std::int64_t epoch_ = 0;
  Learner learner_;
  RunFolder folder_;
  CheckpointFolder checkpoints_;
};

std::string to_text(const IoBench::Times& times, const TrainConfig& config);
std::string to_json(const IoBench::Times& times, const TrainConfig& config);

}  // namespace braid
