#pragma once
// The training loop: config in, run folder with metrics and a trained model out.

#include <chrono>
#include <filesystem>

#include "train/evaluation.h"
#include "train/factories.h"
#include "train/progress.h"
#include "train/run_folder.h"

namespace braid {

struct TrainResult {
  std::int64_t steps = 0;
  double train_loss = 0;         ///< mean over the last epoch
  Evaluation test;               ///< after the last epoch
  bool interrupted = false;      ///< ended by Ctrl-C
  std::filesystem::path folder;  ///< of the run
};

class Trainer {
 public:
  /// Builds everything but the run folder. Throws ConfigError, DataError or DeviceError if that cannot be done.
  explicit Trainer(const TrainConfig& config);

  /// Trains, and after every epoch evaluates and saves the model. Ctrl-C ends the training after the current step, with
  /// metrics and model saved. Throws Error if the loss is no longer finite (the message names the step), or if the run
  /// folder cannot be written. To be called once.
  TrainResult run(Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  /// What the steps of one epoch add up to.
  struct Epoch {
    std::int64_t number = 0;  // from 1
    std::int64_t images = 0;
    double loss_sum = 0, hits = 0;
    Clock::time_point start = Clock::now();

    double loss() const { return loss_sum / static_cast<double>(images); }
    double accuracy() const { return hits / static_cast<double>(images); }
    double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
    double images_per_second() const { return static_cast<double>(images) / seconds(); }
  };

  void train_epochs(RunFolder& folder, Progress& progress, const std::function<bool()>& stop);
  void note_failure(RunFolder& folder, std::string_view what) const;
  /// False if it was interrupted.
  bool train_epoch(Epoch& epoch, RunFolder& folder, Progress& progress, const std::function<bool()>& stop);
  /// Trains on `batch` and, while the device is busy, loads the next one into it; false if there is none.
  bool train_step(Batch& batch, Epoch& epoch);
  void report_step(const Epoch& epoch, RunFolder& folder, Progress& progress);
  void report_epoch(const Epoch& epoch, double seconds, RunFolder& folder, Progress& progress);
  bool finished() const { return result_.steps == total_steps_; }

  TrainConfig config_;
  std::shared_ptr<const Dataset> train_set_, test_set_;
  Session session_;
  std::unique_ptr<Module> model_;
  Loader train_loader_, test_loader_;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t total_steps_;
  LearningRate schedule_;
  TrainResult result_;
};

/// Evaluates a checkpoint on the test set of the config. Throws DataError if it does not fit the config's model.
Evaluation evaluate_checkpoint(const TrainConfig& config, const std::filesystem::path& checkpoint);

}  // namespace braid
