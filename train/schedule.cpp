#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace braid {

namespace {

/// Goes from start to end along half a cosine, as progress goes from 0 to 1.
double anneal(double start, double end, double progress) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0)));
}

/// (x - begin) / (end - begin), and 1 for an empty interval.
double progress_in(double begin, double end, double x) { return end > begin ? (x - begin) / (end - begin) : 1; }

}  // namespace

std::vector<std::string> schedule_names() { return {"constant", "step", "cosine", "one_cycle", "plateau"}; }

LearningRate::LearningRate(const ScheduleOptions& options, double lr, std::int64_t steps_per_epoch,
                           std::int64_t total_steps)
    : options_(options),
      lr_(lr),
      steps_per_epoch_(static_cast<double>(steps_per_epoch)),
      last_step_(static_cast<double>(total_steps - 1)),
      warmup_steps_(options.name == "one_cycle" ? 0 : std::round(options.warmup_epochs * steps_per_epoch_)) {
  const auto names = schedule_names();
  BRAID_CHECK(std::ranges::find(names, options.name) != names.end(), ConfigError, "[schedule] there is no schedule '",
              options.name, "'");
}

double LearningRate::at(std::int64_t step) const {
  const double s = std::min(static_cast<double>(step), last_step_);
  double rate = lr_;
  if (options_.name == "step") rate = step_decay(s);
  if (options_.name == "cosine") {
    rate = anneal(lr_, options_.min_lr, progress_in(warmup_steps_, last_step_ + 1, s));
  }
  if (options_.name == "one_cycle") rate = one_cycle(s);
  if (options_.name == "plateau") {
    rate = std::max(options_.min_lr, lr_ * std::pow(options_.gamma, static_cast<double>(plateau_.reductions)));
  }
  return s < warmup_steps_ ? rate * (s + 1) / warmup_steps_ : rate;
}

void LearningRate::note_validation(bool best) {
  plateau_.worse = best ? 0 : plateau_.worse + 1;
  if (plateau_.worse <= options_.patience) return;
  plateau_.worse = 0;
  ++plateau_.reductions;
}

double LearningRate::step_decay(double step) const {
  const double epoch = step / steps_per_epoch_;
  auto passed = static_cast<double>(
      std::ranges::count_if(options_.milestones, [&](double milestone) { return epoch >= milestone; }));
  if (options_.step_epochs > 0) passed = std::floor(epoch / static_cast<double>(options_.step_epochs));
  return lr_ * std::pow(options_.gamma, passed);
}

double LearningRate::one_cycle(double step) const {
  const double start = lr_ / options_.div_factor;
  const double end = start / options_.final_div_factor;
  const double peak = options_.pct_start * (last_step_ + 1) - 1;
  if (step <= peak) return anneal(start, lr_, progress_in(0, peak, step));
  return anneal(lr_, end, progress_in(peak, last_step_, step));
}

}  // namespace braid
