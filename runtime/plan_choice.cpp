#include "runtime/plan_choice.h"

#include <cmath>

#include "core/error.h"
#include "core/text_table.h"

namespace braid {

namespace {

double thousandths(double value) { return std::round(1000 * value) / 1000; }

/// Seconds of a run in each turn that counts.
std::vector<double> turns_of(const PlanRuns& plan) {
  BRAID_CHECK(plan.seconds.size() == kMeasuredTurns * kRunsPerTurn, Error, "[plan choice] expected ",
              kMeasuredTurns * kRunsPerTurn, " runs of ", plan.name, ", got ", plan.seconds.size());
  std::vector<double> turns;
  for (auto run = plan.seconds.begin() + kRunsPerTurn; run != plan.seconds.end(); run += kRunsPerTurn) {
    turns.push_back(median({run + 1, run + kRunsPerTurn}));
  }
  return turns;
}

}  // namespace

PlanChoice compare(std::span<const PlanRuns> plans) {
  const std::vector<double> first = turns_of(plans.front());
  PlanChoice choice{.first = plans.front().name, .seconds = median(first), .turns = first.size(), .rivals = {}};
  for (const PlanRuns& plan : plans.subspan(1)) {
    std::vector<double> ratios = turns_of(plan);
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= first[i];
    const auto [lower, middle, upper] = quartiles(std::move(ratios));
    choice.rivals.push_back({plan.name, {thousandths(lower), thousandths(middle), thousandths(upper)}});
  }
  return choice;
}

std::size_t PlanChoice::kept() const {
  std::size_t best = 0;
  double least = thousandths(1 - kLeastGain);
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    const double relative = rivals[i].relative.median;
    if (best == 0 ? relative <= least : relative < least) {
      best = i + 1;
      least = relative;
    }
  }
  return best;
}

std::string PlanChoice::report() const {
  std::string text = first + ": " + milliseconds(seconds);
  for (const Rival& rival : rivals) {
    const auto& [lower, middle, upper] = rival.relative;
    text +=
        &rival == rivals.data() ? message("; relative to it, as median and quartiles of ", turns, " turns, ") : ", ";
    text += rival.name + ": " + fixed(middle, 3) + " (" + fixed(lower, 3) + " to " + fixed(upper, 3) + ')';
  }
  const std::size_t best = kept();
  if (best == 0) return text + message("; kept ", first, ", as no other saves ", 100 * kLeastGain, " % of its time");
  const Rival& rival = rivals[best - 1];
  return text + message("; kept ", rival.name, ", which saves ", fixed(100 * (1 - rival.relative.median), 1), " %");
}

}  // namespace braid
