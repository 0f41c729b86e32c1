#pragma once
// Times training steps: repeats the step of a config on one batch of its data.

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/inspect/bench/roofline.h"
#include "train/run/job/learner.h"

namespace braid {

struct BenchTimes {
  std::int64_t steps = 0;
  double seconds = 0;         ///< for all steps
  double median_seconds = 0;  ///< per step: recording, running and reading the loss
  double run_seconds = 0;     ///< per step, median: from the call of Step::run() until the loss is available
  double host_seconds = 0;    ///< per step, median: in Step::run(), which plans and launches and does not wait
  double images_per_second = 0;
};

/// The sums over all nodes of one op in a step, in microseconds.
struct OpTimes {
  std::string op;
  std::int64_t nodes = 0;
  double predicted = 0;    ///< by the costs that the plan was made with, each node alone
  double measured = 0;     ///< medians over several steps, while the plan's concurrent nodes run
  double bytes = 0;        ///< that the nodes read and write, by the analytic model
  std::string clock = {};  ///< RunTimes::clock
};

/// A node of the plan in use that has several implementations, and the one it runs with.
struct KeptImplementation {
  std::string node;  ///< scheduler::node_signature
  std::string implementation;
};

/// The setting of a measurement.
struct BenchSetting {
  std::string model, device;
  std::string precision;  ///< value of the config's key
  std::int64_t batch_size = 0;
  std::string policy;                   ///< policy of the plan in use
  std::size_t streams = 0;              ///< that have work in the plan in use
  double makespan = 0;                  ///< predicted by the policy, microseconds
  double simulated = 0;                 ///< makespan predicted by the simulator, microseconds
  double lower_bound = 0;               ///< bound of the makespan, microseconds
  std::int32_t nodes = 0;               ///< recorded in one step
  double record_seconds = 0;            ///< to record them, in the last step
  SessionStats stats;                   ///< without the batch in `persistent_bytes`
  std::size_t peak_resident_bytes = 0;  ///< peak of the process so far; 0 if unknown
  std::string choice_report;            ///< Session::choice_report
  bool costs = false;                   ///< the session plans with measured costs: see `stats`
  std::string capture_report;           ///< Session::capture_report
};

class Bench {
 public:
  /// Builds model and batch. Throws the same errors as Trainer.
  explicit Bench(const TrainConfig& config);

  /// Runs steps until the plan is chosen and caches are warm.
  void warm_up();
  /// Takes at least one step.
  BenchTimes run(std::int64_t steps);
  /// Does not read the loss, so that the host may run ahead of the device. Returns the seconds for all steps, until the
  /// device has finished.
  double run_unread(std::int64_t steps);
  /// Sorted by measured time, longest first.
  std::vector<OpTimes> op_times();
  /// The times of nodes against the least that they could take on this device.
  Roofline roofline();
  /// The same; on CUDA by CUPTI, as events around a launch also time what the host takes to enqueue it. Once in a
  /// process, and last: see cuda::KernelTracing.
  std::vector<OpTimes> traced_op_times();
  std::vector<KeptImplementation> implementations();
  BenchSetting setting() const;

 private:
  /// Records a step and starts it. Returns its loss.
  Tensor start(Step& step);
  /// Runs a step. Returns BenchTimes::run_seconds of it.
  double step();
  /// Calls `visit` with a step, each node that it launched and its time, the median over several steps. Returns what
  /// measured them, and from the first start to the last finish; microseconds.
  template <class Visit>
  std::pair<std::string, double> measure_nodes(const Visit& visit);
  /// The makespan of the plan in use, with the interference of the profile if there is one.
  double simulated_makespan();

  TrainConfig config_;
  Session session_;
  std::shared_ptr<const ImageDataset> dataset_;
  Batch batch_;
  Learner learner_;
  Parameter& images_;  // the batch lives on the device, so the times include no transfer
  Parameter& labels_;
  BenchSetting plan_;        // the plan of the last step
  double host_seconds_ = 0;  // of the last step, as in BenchTimes
};

/// The first batch of an epoch. Throws ConfigError if there is no complete one.
Batch first_batch(std::shared_ptr<const ImageDataset> dataset, const TrainConfig& config);

/// Text for people, and one line of JSON for programs. `unread`: seconds of as many steps without reading the loss.
std::string to_text(const BenchSetting& setting, const BenchTimes& times, double unread, std::span<const OpTimes> ops);
std::string to_json(const BenchSetting& setting, const BenchTimes& times, double unread, std::span<const OpTimes> ops);
/// The same with a roofline instead of the times of ops.
std::string to_text(const BenchSetting& setting, const BenchTimes& times, double unread, const Roofline& roofline);
std::string to_json(const BenchSetting& setting, const BenchTimes& times, double unread, const Roofline& roofline);

/// Reads lines and answers each with one line of JSON, until the input ends. A script can thus alternate between
/// several programs on one machine.
///
///     run N          N steps
///     run N unread   the same without reading the loss
///     setting        the setting, without times
///     ops            the times of ops and their clock, and the implementations of nodes that have several; to be asked
///                    once and last
///     handover       measure_handover()
///     use I          the lines that follow are for bench I, counted from 0
///
/// The first line of output is {"ready": true}.
void serve(std::span<const std::unique_ptr<Bench>> benches, std::istream& in, std::ostream& out);

}  // namespace braid
