// A family of plans from the fastest to the leanest: on fewer and fewer streams, within smaller and smaller windows
// (scheduler/memory/window.h), at last one node after another. They are made without regard to the limit, then tried by
// ascending makespan until none of the rest can be better. As the family does not depend on the limit, a larger limit
// never gives a longer makespan.

#include "scheduler/memory/memory_limit.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/align.h"
#include "core/text/text.h"
#include "scheduler/check/simulator.h"
#include "scheduler/lowering/implementations.h"
#include "scheduler/memory/lifetimes.h"
#include "scheduler/memory/window.h"

namespace braid::scheduler {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
constexpr int kWindows[] = {64, 32, 16, 8, 4, 2};

/// A member of the family, as far as its cost is known.
struct LimitedSchedule {
  Plan plan;  // commands and simulated times
  std::vector<std::string> traded;
  double bound = 0;                     // lower bound of the makespan, whatever the implementations
  std::int64_t least_bytes = kUnknown;  // live bytes, with the least workspace
};

class Family {
 public:
  Family(const Problem& problem, Policy policy, std::string_view name)
      : problem_(problem), bound_(lower_bound(problem)) {
    const Schedule one_by_one = memory_order(problem);
    const ReorderedStep lean(problem, one_by_one.order);
    add(policy(problem), name, {});
    for (int streams = problem.streams; streams >= 2; streams /= 2) {
      std::vector<std::string> traded;
      if (streams < problem.streams) {
        traded.push_back(message("concurrency: ", plural(streams, "stream"), " instead of ", problem.streams));
        add(policy(with_streams(problem, streams)), name, traded);
      }
      const Problem reordered = lean.problem(streams);
      for (const int window : kWindows) {
        if (window >= static_cast<int>(one_by_one.order.size())) continue;
        if (!problem.searches(SearchStage::limited_windows)) break;
        auto more = traded;
        more.push_back(message("concurrency: at most ", plural(window, "node"), " in flight"));
        Schedule schedule = schedule_within_window(reordered, policy, window);
        add(lean.restore(schedule), name, more);
        add_window_edges(reordered, window, schedule);
        more.back() += " by added waits";
        add(lean.restore(schedule), name, std::move(more));
      }
    }
    add(serial(problem), "serial", {"concurrency: one node after another"});
    add(one_by_one, "memory_order", {"concurrency: one node after another, in an order that frees memory early"});
    std::ranges::stable_sort(candidates_, {}, [](const LimitedSchedule& c) { return c.plan.makespan; });
  }

  LimitedPlan best_within(std::int64_t limit) {
    std::optional<LimitedSchedule> best;
    LimitedSchedule* smallest = &candidates_.front();
    for (LimitedSchedule& candidate : candidates_) {
      if (best.has_value() && candidate.bound >= best->plan.makespan) continue;
      const std::int64_t least_workspace = least_workspace_bytes(problem_, candidate.plan);
      candidate.least_bytes = Lifetimes(problem_.graph, candidate.plan).peak().bytes + least_workspace;
      if (candidate.least_bytes < smallest->least_bytes) smallest = &candidate;
      if (candidate.least_bytes > limit) continue;
      const std::int64_t values = place_values(candidate);
      if (values + least_workspace > limit) continue;
      fit_workspaces(candidate, limit - values);
      if (!best.has_value() || candidate.plan.makespan < best->plan.makespan) best = std::move(candidate);
    }
    const bool fits = best.has_value();
    if (!fits) {
      place_values(*smallest);
      fit_workspaces(*smallest, least_workspace_bytes(problem_, smallest->plan));
      best = std::move(*smallest);
    }
    require_safe(problem_, best->plan);
    return {std::move(best->plan), std::move(best->traded), fits};
  }

 private:
  void add(const Schedule& schedule, std::string_view name, std::vector<std::string> traded) {
    LimitedSchedule candidate{plan_commands(problem_, schedule, name), std::move(traded)};
    candidate.plan.bound = bound_;
    const auto same = [&](const LimitedSchedule& other) {
      return other.plan.commands.streams == candidate.plan.commands.streams;
    };
    if (std::ranges::any_of(candidates_, same)) return;  // its nodes are within the window anyway
    take_simulated_times(problem_, candidate.plan);
    candidate.bound = implementations_bound(problem_, candidate.plan);
    candidates_.push_back(std::move(candidate));
  }

  /// Returns the bytes of the arena without workspaces.
  std::int64_t place_values(LimitedSchedule& candidate) const {
    plan_memory(problem_.graph, problem_.costs, candidate.plan);
    return candidate.plan.workspaces.front().offset;
  }

  void fit_workspaces(LimitedSchedule& candidate, std::int64_t bytes) const {
    const auto slices = [](const Plan& plan) {
      std::int64_t sum = 0;
      for (const ArenaSlice& slice : plan.workspaces) sum += align_up(slice.bytes, kArenaAlignment);
      return sum;
    };
    const std::int64_t before = slices(candidate.plan);
    fit_implementations(problem_, candidate.plan, bytes);
    replace_workspaces(problem_.graph, problem_.costs, candidate.plan);
    const std::int64_t now = slices(candidate.plan);
    if (now < before) candidate.traded.push_back(message("workspace: ", plural(now, "byte"), " instead of ", before));
  }

  const Problem& problem_;
  const LowerBound bound_;
  std::vector<LimitedSchedule> candidates_;
};

}  // namespace

LimitedPlan plan_within(const Problem& problem, Policy policy, std::string_view policy_name, std::int64_t limit) {
  BRAID_CHECK(limit > 0, PlanError, "[memory] expected a limit of at least 1 byte, got ", limit);
  check_problem(problem);
  return Family(problem, policy, policy_name).best_within(limit);
}

}  // namespace braid::scheduler
