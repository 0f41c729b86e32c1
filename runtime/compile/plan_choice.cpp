#include "runtime/compile/plan_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/median.h"
#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid {

namespace {

/// The host waits for every run that is compared, which loses about this part of the time.
constexpr double kHostLoss = 0.1;

double thousandths(double value) { return std::round(1000 * value) / 1000; }

/// What tells a plan apart: "2 streams" for "critical_path on 2 streams".
std::string short_name(const std::string& name) {
  const std::size_t on = name.find(" on ");
  return on == std::string::npos ? name : name.substr(on + 4);
}

/// "+10 %"; small savings, which rules may refuse, as "-1.9 %".
std::string change(double ratio) {
  const double percent = 100 * (ratio - 1);
  return message(percent < 0 ? "" : "+", fixed(percent, percent > -9.95 && percent < 0 ? 1 : 0), " %");
}

/// Turns whose times count.
std::size_t counted(std::size_t turns) { return turns > 2 ? turns - 1 : turns; }

/// Times relative to those of another plan in the same turns, so that drift of the machine's speed cancels.
Quartiles relative(const std::vector<double>& turns, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (std::size_t i = turns.size() - counted(turns.size()); i < turns.size(); ++i) {
    ratios.push_back(turns[i] / others[i]);
  }
  return quartiles(std::move(ratios));
}

}  // namespace

PlanChoice::PlanChoice(std::vector<Plan> plans, std::int64_t expected_runs)
    : plans_(std::move(plans)),
      most_lost_runs_(expected_runs == 0 ? std::numeric_limits<double>::infinity()
                                         : kMostLossShare * static_cast<double>(expected_runs)) {
  BRAID_CHECK(!plans_.empty(), Error, "[plan choice] expected at least one plan, got none");
  start();
}

std::size_t PlanChoice::left() const {
  return static_cast<std::size_t>(std::ranges::count(plans_, false, &Plan::dropped));
}

bool PlanChoice::worth_comparing() const {
  return left() > 1 && static_cast<double>(kRunsPerTurn * (left() - 1)) <= most_lost_runs_;
}

std::size_t PlanChoice::next() const {
  if (!comparing()) return kept_;
  return *std::ranges::min_element(running_, {}, [&](std::size_t i) { return plans_[i].turns.size(); });
}

void PlanChoice::start() {
  running_.clear();
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    plans_[i].turns.clear();
    if (!plans_[i].dropped) running_.push_back(i);
  }
  std::ranges::stable_partition(running_, [&](std::size_t i) { return i == kept_; });
  if (!running_.empty()) kept_ = running_.front();
  if (!worth_comparing()) running_.clear();
  runs_.clear();
  compared_seconds_ = 0;
  compared_runs_ = 0;
  why_.clear();
}

void PlanChoice::add_run(double seconds) {
  BRAID_CHECK(comparing(), Error, "[plan choice] expected plans to be compared when a run is added");
  runs_.push_back(seconds);
  compared_seconds_ += seconds;
  ++compared_runs_;
  const bool cold = in_first_turn() && next() == running_.front();
  const std::size_t needed = runs_.front() < kLongRun ? kRunsPerTurn : cold ? 2 : 1;
  if (runs_.size() < needed) return;
  plans_[next()].turns.push_back(median({runs_.begin() + (runs_.size() > 1 ? 1 : 0), runs_.end()}));
  runs_.clear();
  if (next() == running_.front()) end_round();
}

std::size_t PlanChoice::fastest() const {
  const Plan& first = plans_[running_.front()];
  return *std::ranges::min_element(running_, {},
                                   [&](std::size_t i) { return relative(plans_[i].turns, first.turns).median; });
}

double PlanChoice::lost() const {
  return compared_seconds_ - static_cast<double>(compared_runs_) * median(plans_[fastest()].turns);
}

void PlanChoice::end_round() {
  const std::size_t turns = plans_[running_.front()].turns.size();
  if (turns < 2) return;  // any single turn may have been disturbed
  // The more turns, the smaller the difference at which a plan is dropped: none loses more than a few runs' time.
  const std::vector<double>& best = plans_[fastest()].turns;
  const auto slower = [&](double mine, double its) { return mine > (1 + 1 / static_cast<double>(turns)) * its; };
  std::erase_if(running_, [&](std::size_t i) { return std::ranges::equal(plans_[i].turns, best, slower); });
  const double lost_after_next = lost() * static_cast<double>(turns + 1) / static_cast<double>(turns);
  const bool too_short = turns > 2 && lost_after_next > most_lost_runs_ * median(best);  // the first turn is cold
  if (turns == kMostTurns || running_.size() == 1 || lost_after_next > kMostLoss || too_short) keep();
}

void PlanChoice::keep() {
  std::size_t best = running_.front();
  const Plan& first = plans_[best];
  report_ = message(why_, first.name, ": ", milliseconds(median(first.turns)),
                    "; relative to it, as median and quartiles of up to ", counted(first.turns.size()), " turns");
  // Rounded, so that the numbers that decide are those that the report prints.
  double least = 1;
  std::vector<double> ratios(plans_.size(), 1.0);
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const Plan& plan = plans_[i];
    if (plan.dropped || &plan == &first) continue;
    const auto [lower, middle, upper] = relative(plan.turns, first.turns);
    report_ += message(", ", plan.name, ": ", fixed(middle, 3), " (", fixed(lower, 3), " to ", fixed(upper, 3), ')');
    ratios[i] = thousandths(middle);
    if (ratios[i] >= least || ratios[i] > thousandths(1 - plan.least_gain)) continue;
    best = i;
    least = ratios[i];
  }
  report_ += message("; kept ", plans_[best].name, ", ");
  report_ += least < 1 ? message("which saves ", fixed(100 * (1 - least), 1), " %") : "as no other saves enough";
  summary_ = message(why_, plans_[best].name, " kept, ", milliseconds(median(plans_[best].turns)), "/step (");
  const std::size_t shown = summary_.size();
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].dropped || i == best) continue;
    if (summary_.size() > shown) summary_ += ", ";
    summary_ += message(short_name(plans_[i].name), ' ', change(ratios[i] / least));
    if (ratios[i] < least) summary_ += message(" of the ", fixed(100 * plans_[i].least_gain, 0), " % needed");
  }
  summary_ += ")";
  const double loss = std::max(lost(), kHostLoss * compared_seconds_);
  wait_if_changed_ = std::max(loss / kLossShare, kShortestWait);
  // While the same plan wins, plans are compared less and less often.
  wait_ = best == kept_ ? std::min(2 * std::max(wait_, wait_if_changed_), kLongestWait) : wait_if_changed_;
  kept_ = best;
  running_.clear();
  watched_steps_ = 0;
  watched_seconds_ = usual_interval_ = 0;
}

void PlanChoice::add_interval(double seconds) {
  if (comparing() || !worth_comparing()) return;
  intervals_[watched_steps_++ % kWatchedSteps] = seconds;
  if (watched_steps_ % kWatchedSteps != 0) return;
  const auto middle = intervals_.begin() + kWatchedSteps / 2;
  std::ranges::nth_element(intervals_, middle);
  watched_seconds_ += kWatchedSteps * *middle;
  if (usual_interval_ == 0) usual_interval_ = *middle;
  const double change = *middle / usual_interval_;
  const bool changed = change > kChange || change < 1 / kChange;
  if (watched_seconds_ < (changed ? wait_if_changed_ : wait_)) return;
  start();
  why_ = message("compared again after ", plural(watched_steps_, "step"),
                 changed ? ", which came to take " + fixed(change, 2) + " times as long" : "", ": ");
}

void PlanChoice::drop(std::size_t plan) {
  plans_[plan].dropped = true;
  if (comparing() || plan == kept_) start();
}

}  // namespace braid
