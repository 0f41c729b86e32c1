#pragma once
// How long a training step takes: the steps of a config on one batch of its data, again and again.

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "scheduler/check/simulator.h"
#include "train/run/learner.h"

namespace braid {

struct BenchTimes {
  std::int64_t steps = 0;
  double seconds = 0;         ///< for all steps
  double median_seconds = 0;  ///< per step: recording, running and reading the loss
  double run_seconds = 0;     ///< per step, median: from the call of Step::run() until the loss is there
  double host_seconds = 0;    ///< per step, median: in Step::run(), which plans and launches and does not wait
  double images_per_second = 0;
};

/// Steps whose loss nobody reads, so that the host may run ahead of the device.
struct UnreadTimes {
  std::int64_t steps = 0;
  double seconds = 0;  ///< for all steps, until the device has finished
};

/// All nodes of one op in a step: microseconds, summed.
struct OpTimes {
  std::string op;
  std::int64_t nodes = 0;
  double predicted = 0;  ///< by the costs that the plan was made with, each node alone
  double measured = 0;   ///< medians over several steps, beside whatever the plan runs at the same time
};

/// Where the times come from.
struct BenchSetting {
  std::string model, device;
  std::string precision;  ///< as in the config
  std::int64_t batch_size = 0;
  std::string policy;         ///< of the plan in use
  std::size_t streams = 0;    ///< that have work in the plan in use
  double makespan = 0;        ///< predicted by the policy, microseconds
  double simulated = 0;       ///< makespan predicted by the simulator, microseconds
  double lower_bound = 0;     ///< of the makespan, microseconds
  std::int32_t nodes = 0;     ///< recorded in one step
  double record_seconds = 0;  ///< to record them, in the last step
  std::size_t arena_bytes = 0;
  std::size_t persistent_bytes = 0;
  std::size_t peak_resident_bytes = 0;  ///< of the process so far; 0 if the system does not tell
  std::string choice_report;            ///< Session::choice_report
  bool costs = false;                   ///< the session plans with measured costs
  scheduler::ProfileUse measured = {};  ///< then how many nodes of the plan have them
  std::int64_t captures = 0;            ///< CUDA graphs made so far
  double capture_seconds = 0;           ///< spent on that
};

class Bench {
 public:
  /// Builds model and batch. Throws as Trainer does.
  explicit Bench(const TrainConfig& config);

  /// Steps until the plan is chosen and caches are warm.
  void warm_up();
  BenchTimes run(std::int64_t steps);
  UnreadTimes run_unread(std::int64_t steps);
  /// Longest measured first.
  std::vector<OpTimes> op_times();
  BenchSetting setting() const;

 private:
  struct StepTimes {
    double run_seconds = 0, host_seconds = 0;  // as in BenchTimes
  };
  /// Records a step and starts it. Its time is that of the start.
  double start(Step& step, Tensor& loss);
  StepTimes step();
  double simulated_makespan();

  TrainConfig config_;
  Session session_;
  std::shared_ptr<const Dataset> dataset_;
  Batch batch_;
  Learner learner_;
  Parameter& images_;  // the batch lives on the device, so that no transfer is timed
  Parameter& labels_;
  BenchSetting plan_;  ///< what the last step says of its plan
};

/// What the simulator predicts for a step that has run or is running, with slow-downs of a profile if there is one.
scheduler::Simulation simulate(const Step& step, const DeviceInfo& device, const scheduler::Profile* profile,
                               bool tf32);
/// The first batch of an epoch. Throws ConfigError if there is no complete one.
Batch first_batch(std::shared_ptr<const Dataset> dataset, const TrainConfig& config);

/// For people and for programs (one line of JSON).
std::string to_text(const BenchSetting& setting, const BenchTimes& times, const UnreadTimes& unread,
                    std::span<const OpTimes> ops);
std::string to_json(const BenchSetting& setting, const BenchTimes& times, const UnreadTimes& unread,
                    std::span<const OpTimes> ops);

/// Reads lines "run N" and "run N unread", and answers each with one line of JSON, until the input ends; so that a
/// script can take turns between several programs on one machine. "setting" asks for the setting without times. The
/// first line written is {"ready": true}.
void serve(Bench& bench, std::istream& in, std::ostream& out);

}  // namespace braid
