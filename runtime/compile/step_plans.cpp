#include "runtime/compile/step_plans.h"

#include <algorithm>
#include <ranges>

#include "runtime/agreement.h"
#include "runtime/session.h"

namespace braid {

namespace {

/// A plan that is predicted to take this many times as long as another is not tried: other programs rarely occupy so
/// much of the machine that using fewer cores would make up for this.
constexpr double kHopeless = 3;

/// The least saving of a plan that uses fewer cores: it does not become faster once the others are free again, and that
/// is noticed only when plans are compared again.
constexpr double kLeastNarrowGain = 0.1;

}  // namespace

StepPlans::StepPlans(const StepGraph& recorded, Planner& planner)
    : planned_(planner.rewritten(recorded)),
      recorded_(planned_.front().values.empty() ? std::nullopt : std::optional(with_kept_results(recorded))),
      planner_(planner),
      choice_(std::vector<PlanChoice::Plan>(1)) {
  start(planner.settings());
}

void StepPlans::start(std::vector<PlanSetting> settings) {
  settings_ = std::move(settings);
  plans_.clear();
  plans_.resize(settings_.size());
  current_ = 0;
  std::vector<PlanChoice::Plan> plans;
  for (const PlanSetting& setting : settings_) {
    const bool narrower = setting.width != settings_.front().width;
    plans.push_back({.name = setting.name(), .least_gain = narrower ? kLeastNarrowGain : kLeastGain});
  }
  choice_ = PlanChoice(std::move(plans), planner_.expected_steps);
}

Executable& StepPlans::ready(Arena& arena, const Context& context) {
  while (true) {
    try {
      // Once the first turn has ended, all plans are made and the arena is as large as any of them needs. While runs
      // count, it must not move: graphs would be captured again.
      if (choice_.comparing() && current() != nullptr && plans_[choice_.next()].executable == nullptr) {
        const std::size_t largest = make_all();
        if (!arena.has(plans_[largest].arenas) && try_plan(largest, arena, context) == nullptr) continue;
      }
      if (Executable* executable = try_plan(choice_.next(), arena, context)) return *executable;
    } catch (const UnusableKernel& error) {
      unusable_ = error.what();
      plans_[current_] = {};  // replanned without that kernel
    }
  }
}

bool StepPlans::wants_times() const {
  return choice_.in_first_turn() && planner_.observes() && !planner_.goes_by_observed(settings_[current_]);
}

std::size_t StepPlans::make_all() {
  const bool early = !planner_.goes_by_observed(settings_[choice_.next()]);
  const auto bytes = [&](std::size_t plan) {
    return plans_[plan].executable == nullptr ? -1 : plans_[plan].largest_arena();
  };
  for (std::size_t plan = 0; plan < plans_.size(); ++plan) {
    if (bytes(plan) >= 0 || choice_.dropped(plan) || (early && planner_.goes_by_observed(settings_[plan]))) continue;
    plans_[plan] = make(settings_[plan]);
    if (bytes(plan) < 0) choice_.drop(plan);
  }
  return std::ranges::max(std::views::iota(std::size_t{0}, plans_.size()), {}, bytes);
}

Executable* StepPlans::try_plan(std::size_t plan, Arena& arena, const Context& context) {
  current_ = plan;
  PlannedStep& current = plans_[current_];
  if (!choice_.comparing()) {  // from now on, values of the last compared run cannot be read
    for (PlannedStep& other : plans_) {
      if (&other != &current) other = {};
    }
  }
  if (current.executable == nullptr) current = make(settings_[current_]);
  if (current.executable == nullptr) {
    choice_.drop(current_);
    return nullptr;
  }
  try {
    prepare(current, arena, context);
    return current.executable.get();
  } catch (const OutOfMemory&) {
    if (use_less_memory(current.largest_arena())) return nullptr;
    start(planner_.settings());  // the next step may find more memory
    throw;
  }
}

void StepPlans::prepare(PlannedStep& plan, Arena& arena, const Context& context) {
  Executable& executable = *plan.executable;
  // No agreement is needed where nothing can fail. The condition is equal on all ranks, as their plans are.
  const bool is_safe = executable.tried() && arena.has(plan.arenas);
  const auto attempt = [&] {
    arena.reserve(executable.plan().arena_bytes, plan.arenas);
    executable.bind(arena.data(), context, planner_.streams());
    executable.try_kernels(planner_.streams());
  };
  const ParallelOptions& parallel = planner_.options().parallel;
  if (parallel.ranks() == 1 || is_safe) return attempt();
  constexpr double kNoProblem = 0, kUnusable = 1, kMemory = 2;  // the worst counts
  double problem = kNoProblem;
  std::string text;
  try {
    attempt();
  } catch (const UnusableKernel& error) {
    problem = kUnusable, text = error.what();
  } catch (const OutOfMemory& error) {
    problem = kMemory, text = error.what();
  }
  planner_.streams().synchronize();  // ranks agree while no step runs
  const double worst = largest(parallel, problem);
  if (worst == kNoProblem) return;
  if (problem == kNoProblem)
    text = "another rank reports " + std::string(worst == kMemory ? "no memory" : "an unusable kernel");
  if (worst == kUnusable) throw UnusableKernel(text);
  arena.release();  // so that all ranks have none
  throw OutOfMemory(text);
}

std::int64_t StepPlans::made() const {
  return std::ranges::count_if(plans_, [](const PlannedStep& plan) { return plan.executable != nullptr; });
}

std::string StepPlans::with_problems(const std::string& choice) const {
  const std::string& report = choice.empty() ? shortage_ : choice;
  return report + (report.empty() || unusable_.empty() ? "" : "; ") + unusable_;
}

PlannedStep StepPlans::make(const PlanSetting& setting) {
  const std::int64_t limit = planner_.options().memory_limit;
  PlannedStep made = planner_.plan(planned_, setting, limit);
  if (planner_.options().parallel.ranks() > 1) {
    planner_.streams().synchronize();  // ranks agree while no step runs
    require_agreement(planner_.options().parallel, made.hash, "the plan of a step");
  }
  const bool fits = limit == 0 || made.largest_arena() <= limit;
  bool first = true, pointless = setting.policy != "serial" && made.used_streams == 1;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const PlannedStep& other = plans_[i];
    if (other.executable == nullptr) continue;
    first = false;
    const bool same_costs = planner_.goes_by_observed(settings_[i]) == planner_.goes_by_observed(setting);
    pointless = pointless || made.hash == other.hash || (same_costs && made.makespan > kHopeless * other.makespan);
  }
  if (first && !fits) throw OutOfMemory(scheduler::does_not_fit(made.largest_arena(), made.traded, limit));
  return first || (fits && !pointless) ? std::move(made) : PlannedStep{};
}

bool StepPlans::use_less_memory(std::int64_t bytes) {
  const auto too_large = [&](const PlannedStep& plan) { return plan.largest_arena() >= bytes; };
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].executable == nullptr || !too_large(plans_[i])) continue;
    plans_[i] = {};
    choice_.drop(i);
  }
  if (made() == 0) {
    // The free memory of the device is unknown: this searches in steps of an eighth.
    const PlanSetting serial;
    PlannedStep smaller = planner_.plan(planned_, serial, bytes - bytes / 8);
    if (too_large(smaller)) return false;
    start({serial});
    plans_.front() = std::move(smaller);
  }
  shortage_ = message("plans that need ", bytes, " bytes or more do not fit into memory");
  return true;
}

}  // namespace braid
