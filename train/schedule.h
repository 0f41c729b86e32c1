#pragma once
// Learning-rate schedules as pure functions of the step.

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// Members that a schedule does not name are ignored by it.
struct ScheduleOptions {
  /// constant  lr
  /// step      lr · gamma^(milestones passed)
  /// cosine    from lr down to min_lr along half a cosine (Loshchilov and Hutter, 2017)
  /// one_cycle up from lr / div_factor to lr, then down to lr / div_factor / final_div_factor, each along half a
  ///           cosine (Smith and Topin, 2018; the same values as torch.optim.lr_scheduler.OneCycleLR)
  std::string name = "constant";
  double warmup_epochs = 0;             ///< all but one_cycle: linear from nearly 0 to lr
  std::vector<double> milestones = {};  ///< step: epochs after which the rate falls, ascending
  std::int64_t step_epochs = 0;         ///< step: instead of milestones, one every so many epochs; 0: none
  double gamma = 0.1;                   ///< step
  double min_lr = 0;                    ///< cosine
  double pct_start = 0.3;               ///< one_cycle: share of the steps that go up
  double div_factor = 25;               ///< one_cycle
  double final_div_factor = 1e4;        ///< one_cycle
};

class LearningRate {
 public:
  /// Throws ConfigError if there is no such schedule.
  LearningRate(const ScheduleOptions& options, double lr, std::int64_t steps_per_epoch, std::int64_t total_steps);

  /// The rate of a step, counted from 0. The last one is total_steps - 1; beyond it the rate stays.
  double at(std::int64_t step) const;

 private:
  double step_decay(double step) const;
  double cosine(double step) const;
  double one_cycle(double step) const;

  ScheduleOptions options_;
  double lr_;
  double steps_per_epoch_;
  double last_step_;
  double warmup_steps_;
};

std::vector<std::string> schedule_names();

}  // namespace braid
