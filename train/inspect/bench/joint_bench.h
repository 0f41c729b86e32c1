#pragma once
// Measures the gain of training several models in the same steps: turns of all jobs together, alternating with the same
// steps one job after another, in one process so that both see the same machine.

#include <vector>

#include "core/base/median.h"
#include "train/report/plan/plan_view.h"
#include "train/run/job/learner.h"

namespace braid {

class JointBench {
 public:
  /// Builds models and batches. Throws the same errors as Trainer.
  explicit JointBench(const RunConfig& config);

  /// Runs steps until plans are chosen, steps per round are balanced, and caches are warm.
  void warm_up();

  struct JobTimes {
    std::string name;
    std::int64_t batch_size = 0;
    std::int64_t steps_per_round = 1;
    double alone_seconds = 0;           ///< seconds of its steps in a round, alone; median
    std::size_t alone_arena_bytes = 0;  ///< arena of the plan of one step alone
    double images_per_second_alone = 0, images_per_second_together = 0;
  };
  struct Times {
    std::int64_t turns = 0;
    double together_seconds = 0;  ///< per round, median
    Quartiles speedup;            ///< alone over together, within a turn: the machine's drift affects both
    std::size_t together_arena_bytes = 0;
    std::string plan;           ///< plan of a round together, for example "critical_path on 2 streams"
    std::string choice_report;  ///< report of that plan, see Session
    std::vector<JobTimes> jobs;
  };
  Times run(std::int64_t turns);

  /// Trains each job by one step at a time until the plan is chosen and caches are warm, and measures the next step.
  /// The caller sets the title.
  scheduler::PlanView measured_step();

 private:
  struct Entry {
    JobConfig config;
    Batch batch;
    std::unique_ptr<Learner> learner;
    JobTimes times;
  };
  /// Runs one step of the session, with the given number of steps of each entry. Returns seconds.
  double step(std::span<Entry> entries, bool balanced);
  /// Runs steps of one kind until their plan is chosen, and a few more.
  void settle(std::span<Entry> entries, bool balanced);

  Session session_;
  std::vector<Entry> entries_;
  std::size_t arena_bytes_ = 0;  // arena of the last step's plan
  std::string plan_;
  std::string choice_report_;
};

std::string to_text(const JointBench::Times& times);
std::string to_json(const JointBench::Times& times);

}  // namespace braid
