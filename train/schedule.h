#pragma once
// Learning-rate schedules: functions of the step, and for the plateau schedule also of the validations so far.

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

class Keys;

/// A schedule ignores members that its formula does not name.
struct ScheduleOptions {
  /// constant  lr
  /// step      lr · gamma^(milestones passed)
  /// cosine    from lr down to min_lr along half a cosine (Loshchilov and Hutter, 2017)
  /// one_cycle up from lr / div_factor to lr, then down to lr / div_factor / final_div_factor, each along half a
  ///           cosine (Smith and Topin, 2018; the same values as torch.optim.lr_scheduler.OneCycleLR)
  /// plateau   lr · gamma^(times that more than `patience` validations in a row were not the best so far),
  ///           at least min_lr (as torch.optim.lr_scheduler.ReduceLROnPlateau with threshold 0)
  std::string name = "constant";
  double warmup_epochs = 0;
  std::vector<double> milestones = {};  ///< ascending epochs; the step schedule uses either these
  std::int64_t step_epochs = 0;         ///< or this interval; 0: none
  double gamma = 0.1;
  double min_lr = 0;
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  std::int64_t patience = 10;

  /// Declares the keys of the section (train/config/training_keys.cpp).
  void declare(const Keys& keys);
};

class LearningRate {
 public:
  /// Throws ConfigError if there is no such schedule.
  LearningRate(const ScheduleOptions& options, double lr, std::int64_t steps_per_epoch, std::int64_t total_steps);

  /// The rate of a step, counted from 0. The last one is total_steps - 1; the rate stays constant after it.
  double at(std::int64_t step) const;

  /// What the plateau schedule remembers about the validations.
  struct Plateau {
    std::int64_t worse = 0;       ///< validations in a row that were not the best so far
    std::int64_t reductions = 0;  ///< reductions of the rate
  };
  /// Takes note of a validation: whether it was the best so far.
  void note_validation(bool best);
  const Plateau& plateau() const { return plateau_; }
  void set_plateau(const Plateau& plateau) { plateau_ = plateau; }

 private:
  double step_decay(double step) const;
  double one_cycle(double step) const;

  ScheduleOptions options_;
  double lr_;
  double steps_per_epoch_;
  double last_step_;
  double warmup_steps_;
  Plateau plateau_;
};

std::vector<std::string> schedule_names();

}  // namespace braid
