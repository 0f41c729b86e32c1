#pragma once
// The training of one model: epochs of batches, learning rates, evaluations, and the run folder that records them. A
// job records its steps on the session's current step; the caller decides what else that step contains.

#include <chrono>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "train/checkpoint/checkpoint_folder.h"
#include "train/report/plan/plan_view.h"
#include "train/run/job/evaluation.h"
#include "train/run/job/learner.h"
#include "train/run/log/progress.h"
#include "train/run/log/run_folder.h"

namespace braid {

class Json;
struct JsonPart;

struct TrainResult {
  std::string name;
  std::int64_t steps = 0;
  double train_loss = 0;        ///< mean over the last epoch
  scheduler::LossCurve losses;  ///< so far
  Evaluation val;               ///< after the last epoch
  std::int64_t best_step = 0;   ///< the step of the best validation; 0 if there was none, or only another rank knows it
  std::int64_t diverged_at = 0;  ///< the step whose loss was the first not to be finite; 0: none
  bool interrupted = false;      ///< ended by a signal, for example Ctrl-C
  std::exception_ptr failure;    ///< why the job stopped early; null if it did not
  std::filesystem::path folder;  ///< folder of the run

  /// The message of the failure; empty if there is none.
  std::string failure_text() const;
};

/// What a rank may ask of all ranks. They receive it with the losses of the step that records it, so all of them after
/// the same step.
struct Requests {
  bool stop = false, save = false;
};

/// Where a job reports: the folder of its run, and its row of the progress.
struct JobOutput {
  RunFolder& folder;
  Progress& progress;
  std::size_t row;
};

class Job {
 public:
  /// Builds model, optimizer and loaders. Throws ConfigError, DataError or Error if that cannot be done, and
  /// OutOfMemory if evaluation will not fit into the memory limit.
  Job(const TrainConfig& config, Session& session, DatasetPool& datasets);

  /// "resnet20, 272,186 parameters, f32 on cpu, fashion_mnist: 60,000 images in 468 steps"
  std::string description() const;
  /// A summary that distinguishes the data of two jobs, in lines: name, size, shape and fingerprint of the training and
  /// the validation set.
  std::string data_summary() const;
  std::int64_t total_steps() const { return total_steps_; }
  bool finished() const { return stopped_early_ || learner_.steps() == total_steps_; }

  /// Makes the folder of checkpoints, or continues from the newest readable one in it; a new run begins with the
  /// weights that the config names. Says what it found. Throws DataError if there are checkpoints, but none fits, or if
  /// the weights do not. Call it before the first round.
  void open(const JobOutput& output);

  /// Repeats a training that diverged at a step: a new job does it, from a checkpoint in the folder of the old one, or
  /// from the start. Says which node made the first value that is not finite, and in which step; nothing if none does,
  /// or once `stop` returns true. Throws what open() throws, and OutOfMemory: all values of a step are kept.
  std::string find_first_not_finite(const JobOutput& output, std::int64_t step, const std::function<bool()>& stop);

  // The phases of a round, in this order.

  /// Records at most this many of the epoch's next steps; begins the next epoch if necessary. Returns how many.
  std::int64_t record(std::int64_t steps, Requests requests = {});
  /// Loads the next round's batches, as far as they belong to this epoch, while the device is busy.
  void load_ahead(std::int64_t steps);
  /// Appends the arrays of the batches that load_ahead() has loaded.
  void list_loaded(std::vector<Array>& arrays) const;
  /// Reads the losses of the steps of earlier rounds, and of this round too if `all`. Losses are usually read one round
  /// late, while the next round runs, so that the device never waits for the host. Throws Error if one is no longer
  /// finite; the message names the step.
  void collect(bool all);

  /// The requests that have arrived from any rank since the last call.
  Requests take_requests() { return std::exchange(arrived_, {}); }

  /// Whether the last batch of an epoch, or of the whole training, has been trained on.
  bool epoch_ended() const { return in_epoch_ && batches_.empty() && (!more_ || finished()); }
  /// Saves the model, and evaluates it if that is due. False if `stop` returned true and the evaluation was abandoned.
  bool end_epoch(const std::function<bool()>& stop);
  /// Whether the config wants a checkpoint after the steps recorded so far.
  bool save_due() const;
  /// Begins to save model and training state, unless that was done after the same step. All losses must have been
  /// collected. Throws Error if it fails, or if saving failed the last time.
  void save();
  /// The same in the middle of an epoch, at the end of the run.
  void interrupt();
  /// Returns once everything is saved.
  void finish_saving();

  /// The result so far.
  const TrainResult& result() const { return result_; }
  /// Steps that have been recorded.
  std::int64_t recorded() const { return learner_.steps(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// Sums over steps, of an epoch or between two records of metrics.
  struct Sums {
    std::int64_t images = 0;
    double loss_sum = 0, hits = 0;

    double loss() const { return loss_sum / static_cast<double>(images); }
    double accuracy() const { return hits / static_cast<double>(images); }
    ProgressState means() const { return {.loss = loss(), .accuracy = accuracy()}; }
    void add(const Sums& step);
    Json json() const;
    static Sums read(const JsonPart& saved);
  };
  /// A recorded step whose loss has not been read.
  struct Pending {
    Fetched loss, top1;
    std::int64_t images;  // images of all ranks
    double lr;
    std::optional<Fetched> stop, save;  // how many ranks ask for it; none if there is one rank
  };

  /// Checks the last batch before an epoch is wasted: batch norm, for one, needs several elements. Throws ConfigError.
  void check_last_batch();
  void begin_epoch();
  /// Records how many ranks ask for something.
  Fetched count_requests(bool own) const;
  /// The share of the next step, among those that make one update together.
  Learner::Share next_share() const;
  /// Whether ranks that train by themselves average their models after this step, counted from 1.
  bool averages_after(std::int64_t step) const;
  Checkpoint checkpoint();
  std::vector<NamedArray> checkpoint_tensors();
  /// Ranks that had diverged would continue unnoticed, and save the state of rank 0. Throws CommunicationError if they
  /// have.
  void compare_ranks();
  /// Continues from the newest readable checkpoint with at most `most_steps` steps, or begins. Returns the size of the
  /// metrics that belong to it.
  std::uint64_t begin(std::int64_t most_steps);
  std::uint64_t restore(const SafeTensors& file);
  std::uint64_t restore(const JsonPart& state, const SafeTensors& file);
  double epoch_seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - epoch_start_).count();
  }
  double images_per_second() const { return static_cast<double>(epoch_.images) / epoch_seconds(); }
  void report_step(double lr);
  void show_progress(bool due) const;
  void report_epoch(double seconds, bool validated) const;
  /// Warns of unreadable images, once for each number of them.
  /// Throws DataError once the whole run has found more than data.max_bad.
  void note_bad_images();
  /// Evaluates the model, compares the result with earlier ones, and updates everything that depends on which is the
  /// best; false if `stop` abandoned that.
  bool validate(const std::function<bool()>& stop);

  void print(std::string_view line) const { output_->progress.print(output_->row, line); }

  TrainConfig config_;
  Session& session_;
  std::shared_ptr<const ImageDataset> train_set_, val_set_;
  Loader train_loader_, val_loader_;
  std::int64_t total_steps_;
  LearningRate schedule_;
  Learner learner_;
  Inference inference_;
  std::vector<Batch> batches_;  // loaded, not yet recorded
  std::deque<Pending> pending_;
  std::size_t newest_ = 0;         // the ones of the last round
  std::int64_t epoch_number_ = 0;  // from 1
  Sums epoch_, interval_;          // of this epoch; since the last record
  double seconds_before_ = 0;      // spent in this epoch before epoch_start_
  Clock::time_point epoch_start_ = Clock::now();
  std::optional<ProgressState> shown_;  // means of the last recorded interval
  Requests arrived_;
  bool in_epoch_ = false;
  bool more_ = false;                // the loader may have more batches of this epoch
  std::optional<JobOutput> output_;  // none before open()
  TrainResult result_;
  std::optional<double> best_score_;    // best score of the validations; the larger the better
  std::int64_t worse_validations_ = 0;  // in a row, since the best
  bool stopped_early_ = false;
  std::size_t bad_images_ = 0;                   // that were warned of
  std::optional<CheckpointFolder> checkpoints_;  // none before open(), and where another rank writes them
  std::int64_t saved_step_ = -1;                 // step of the last checkpoint
};

}  // namespace braid
