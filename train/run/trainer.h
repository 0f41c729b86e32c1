#pragma once
// The training loop: config in, run folders with metrics and trained models out. All jobs of a run train in the same
// steps: each round records a few steps of every job into one step graph, which the scheduler runs as a whole.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/compile/plan_choice.h"
#include "train/report/plan/plan_view.h"
#include "train/run/interrupt.h"
#include "train/run/job/job.h"

namespace braid {

struct RunResult {
  std::vector<TrainResult> jobs;  ///< in the order of the config
  std::filesystem::path folder;   ///< folder of the run; those of the jobs are in it if the config has a list of jobs
  int interrupted = 0;            ///< the signal that ended the run, for example SIGINT; 0: none

  bool failed() const;  ///< whether a job failed
};

class Trainer {
 public:
  /// Builds everything except the run folders. Throws ConfigError, DataError or DeviceError if that fails; in a list of
  /// jobs, a job that cannot be built leaves the others running.
  /// The datasets of a pool are used where the config asks for them.
  explicit Trainer(RunConfig config, DatasetPool datasets = {});

  /// Once a plan has been chosen and in use for a while, measures one step and passes the plan with its measured times
  /// to `show`; again, with more losses, after every epoch and at the end. The results of training stay bitwise equal.
  void show_a_step(std::function<void(const scheduler::PlanView&)> show) { show_ = std::move(show); }
  /// Whether a step has been shown.
  bool shown() const { return measured_.has_value(); }

  /// Lets run() continue in the folder of an earlier run of this config, from the newest checkpoints in it, as if that
  /// run had never stopped.
  void resume(std::filesystem::path folder) { resumed_ = std::move(folder); }

  /// Trains, and evaluates and saves each job after each of its epochs. SIGINT (Ctrl-C), SIGTERM and SIGHUP end
  /// training after the current step, with metrics and models saved. A job that fails, for instance because its loss is
  /// no longer finite, leaves the others running. Afterwards, training is repeated far enough to find the node of a
  /// step that made a loss infinite or NaN. Without a list of jobs, throws the failure. Call it once.
  RunResult run(Progress& progress);

 private:
  struct Entry {
    const JobConfig& config;
    std::unique_ptr<Job> job = {};  // null once it has ended
    std::unique_ptr<RunFolder> folder = {};
    std::int64_t steps_per_round = 1;
    double seconds = 0;           // seconds of a step alone
    std::size_t arena_bytes = 0;  // arena of the plan of a step alone
    TrainResult result = {};
  };
  /// The cost of a round.
  struct Round {
    std::int64_t steps;  // of all jobs
    double seconds;
    std::size_t arena_bytes;
  };

  /// Throws CommunicationError unless all ranks have the same program, data, config and costs.
  void compare_ranks() const;
  void open_folders();
  std::unique_ptr<RunFolder> open_folder(const Entry& entry) const;
  std::unique_ptr<RunFolder> make_folder(const Entry& entry) const;
  /// Prints a last line per job, if there is a list of them.
  void report_results(const RunResult& result) const;
  void train();
  /// The choice between steps as one (parallel.steps_per_execution) and single steps, if the config leaves plans to
  /// measurements and the choice cannot change results: three ranks and more add gradients in an order that depends on
  /// the step.
  std::optional<PlanChoice> steps_as_one() const;
  /// Runs steps of each entry alone until its plan is chosen, to balance the rounds.
  void measure_alone();
  void balance();
  std::vector<Entry*> running();
  /// Whether training should end after this step.
  bool stopped() const { return session_.parallel().ranks() == 1 ? interrupt_->requested() : stops_; }
  JobOutput output(const Entry& entry) const { return {*entry.folder, *progress_, row(entry)}; }
  /// Runs the recorded step, or measures it to show it. `all`: the step contains all jobs.
  void run_step(Step& step, bool all);
  /// Shows the measured step, if there is one, with the losses so far.
  void show();
  /// What recording, running and reading a step throws ends the job at fault.
  Round run_round(std::span<Entry* const> entries);
  /// What follows a fault in a step of several jobs: each runs its steps since its last checkpoint again, alone, which
  /// ends the job whose fault it was. If it was no single job's, it ends all.
  void repeat_alone(std::span<Entry* const> entries, const std::exception_ptr& fault);
  /// Adds to each failure by a loss that is not finite which node was the first to make such a value.
  void explain_divergence();
  /// Whether any rank has asked to save; notes whether any has asked to stop.
  bool take_requests();
  /// Begins to save the jobs that are due, or all.
  void save(bool all);
  /// Reads the losses of the previous round, or all that have not been read.
  void collect(bool all);
  /// Ends the epoch of a job that has trained on the last batch of it; false if the job has not.
  bool end_epoch(Entry& entry);
  void report_memory(std::span<Entry* const> entries, std::size_t joint_arena_bytes);
  /// Calls an action of a job; the job fails if the action throws.
  template <class Action>
  void attempt(Entry& entry, const Action& action);
  void fail(Entry& entry);
  void end(Entry& entry);
  std::size_t row(const Entry& entry) const { return static_cast<std::size_t>(&entry - entries_.data()); }

  RunConfig config_;
  Session session_;
  DatasetPool datasets_;
  std::vector<Entry> entries_;
  std::filesystem::path resumed_;      // empty for a new run
  std::unique_ptr<RunFolder> folder_;  // folder of the run, if it has a list of jobs

  Progress* progress_ = nullptr;  // these two: of run()
  const InterruptGuard* interrupt_ = nullptr;

  std::function<void(const scheduler::PlanView&)> show_;
  std::optional<scheduler::PlanView> measured_;  // the step to show
  std::vector<int> owners_;                      // per node of the recorded step: its job
  Hash last_step_;                               // structure of the last step
  Requests requests_;                            // this rank's requests for the next round
  bool stops_ = false;                           // whether some rank has asked to stop
  bool timing_ = false;                          // rounds end when the device has finished, to be compared
  int settled_steps_ = 0;                        // steps of that structure since its plan was chosen
};

/// Evaluates a checkpoint on the validation or the test set of the config. Calls `warn` if the config holds out other
/// images than the checkpoint's training did.
/// Throws DataError if it does not fit the config's model or classes, or if a tensor is not finite, Error if the loss
/// is not finite.
Evaluation evaluate_checkpoint(TrainConfig config, const std::filesystem::path& checkpoint, Split split = Split::val,
                               const std::function<void(const std::string&)>& warn = {});

}  // namespace braid
