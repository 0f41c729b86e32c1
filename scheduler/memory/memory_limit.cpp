// A family of plans from the fastest to the leanest: on fewer and fewer streams, within smaller and smaller windows
// (scheduler/memory/lean_schedule.h), at last one node after another. They are made without regard to the limit, then
// tried by ascending makespan until none of the rest can be better. As the family does not depend on the limit, a
// larger limit never gives a longer makespan.

#include "scheduler/memory/memory_limit.h"

#include <algorithm>
#include <iomanip>
#include <limits>

#include "core/base/text_stream.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "scheduler/lowering/implementations.h"
#include "scheduler/memory/lean_schedule.h"
#include "scheduler/memory/lifetimes.h"
#include "scheduler/memory/recompute.h"

namespace braid::scheduler {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
constexpr int kWindows[] = {64, 32, 16, 8, 4, 2};
/// The most rounds of choosing more values and planning the step again.
constexpr int kMostAttempts = 8;

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
    const Schedule one_by_one = serial(problem);
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
        auto more = traded;
        more.push_back(message("concurrency: at most ", plural(window, "node"), " in flight"));
        Schedule schedule = schedule_within_window(reordered, policy, window);
        add(lean.restore(schedule), name, more);
        add_window_edges(reordered, window, schedule);
        more.back() += " by added waits";
        add(lean.restore(schedule), name, std::move(more));
      }
    }
    add(one_by_one, "serial", {"concurrency: one node after another"});
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
    Plan& plan = candidate.plan;
    const std::int64_t values = plan.workspaces.front().offset, before = plan.arena_bytes - values;
    fit_implementations(problem_, plan, bytes);
    replace_workspaces(problem_.graph, problem_.costs, plan);
    const std::int64_t now = plan.arena_bytes - values;
    if (now < before) candidate.traded.push_back(message("workspace: ", plural(now, "byte"), " instead of ", before));
  }

  const Problem& problem_;
  const LowerBound bound_;
  std::vector<LimitedSchedule> candidates_;
};

std::string mebibytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / (1 << 20), 2) + " MiB"; }

std::string describe(const RewrittenGraph& recomputed, const Costs& costs) {
  const std::vector<NodeId> first = recomputed.first_nodes();
  double microseconds = 0;
  std::int32_t nodes = 0;
  for (NodeId id = 0; id < recomputed.graph.node_count(); ++id) {
    if (first[recomputed.nodes[id]] == id || recomputed.graph.node(id).is_view) continue;
    ++nodes;
    microseconds += costs.fastest(id);
  }
  TextStream out;
  out << std::setprecision(3) << "recomputation: " << plural(nodes, "node") << " a second time, which takes "
      << microseconds / 1e3 << " ms";
  return out.str();
}

/// Recomputes values until `plan`, which does not fit, fits with nothing else traded, or until no more of them help:
/// then more is traded. `chosen` are recomputed in `current` in any case; nothing if that is all that helps.
std::optional<LimitedStep> recompute_first(const Problem& problem, Policy policy, std::string_view policy_name,
                                           std::int64_t limit, Plan plan, RewrittenGraph current,
                                           std::vector<ValueId> chosen) {
  std::optional<Problem> again;
  for (int round = 0; round < kMostAttempts && plan.arena_bytes > limit; ++round) {
    if (!choose_recomputed(problem.graph, problem.costs, current, plan, plan.arena_bytes - limit, chosen)) break;
    current = recompute(problem.graph, chosen);
    again = with_graph(problem, current.graph, current.nodes);
    plan = make_plan(*again, policy, policy_name);
  }
  if (!again.has_value()) return {};
  const bool fits = plan.arena_bytes <= limit;
  if (fits) take_simulated_times(*again, plan);
  LimitedPlan limited = fits ? LimitedPlan{std::move(plan)} : plan_within(*again, policy, policy_name, limit);
  limited.traded.push_back(describe(current, again->costs));
  return LimitedStep{std::move(limited), *std::move(again), std::move(current)};
}

}  // namespace

LimitedPlan plan_within(const Problem& problem, Policy policy, std::string_view policy_name, std::int64_t limit) {
  BRAID_CHECK(limit > 0, PlanError, "[memory] expected a limit of at least 1 byte, got ", limit);
  check_problem(problem);
  return Family(problem, policy, policy_name).best_within(limit);
}

LimitedStep plan_step(Problem problem, Policy policy, std::string_view policy_name, std::int64_t limit) {
  std::vector<ValueId> chosen = marked_values(problem.graph);
  std::optional<RewrittenGraph> marked;
  std::optional<Problem> with_marked;
  if (!chosen.empty()) {
    try {
      marked = recompute(problem.graph, chosen);
      with_marked = with_graph(problem, marked->graph, marked->nodes);
    } catch (const ShapeError&) {  // a recomputed node would read a changed parameter: nothing is recomputed
      chosen.clear();
    }
  }
  Problem& first = with_marked.has_value() ? *with_marked : problem;
  Plan plan = make_plan(first, policy, policy_name);
  if (limit == 0 || plan.arena_bytes <= limit) return {{std::move(plan)}, std::move(first), std::move(marked)};
  LimitedPlan limited = plan_within(first, policy, policy_name, limit);
  LimitedStep best{limited, first, marked};
  RewrittenGraph current = marked.has_value() ? *std::move(marked) : recompute(problem.graph, chosen);
  std::optional<LimitedStep> concurrent =
      recompute_first(problem, policy, policy_name, limit, std::move(plan), current, chosen);

  for (int round = 0; round < kMostAttempts && !best.fits; ++round) {
    const std::int64_t excess = limited.plan.arena_bytes - limit;
    if (!choose_recomputed(problem.graph, problem.costs, current, limited.plan, excess, chosen)) break;
    current = recompute(problem.graph, chosen);
    Problem again = with_streams(with_graph(problem, current.graph, current.nodes), 1);
    limited = plan_within(again, policy, policy_name, limit);  // concurrency would only need more memory
    if (limited.plan.arena_bytes >= best.plan.arena_bytes) continue;
    if (limited.fits && problem.streams > 1) {  // but some concurrency may fit
      again.streams = problem.streams;
      limited = plan_within(again, policy, policy_name, limit);
    }
    if (limited.traded.empty() &&
        limited.plan.commands.streams.size() < static_cast<std::size_t>(problem.all_streams())) {
      limited.traded.push_back("concurrency: one stream");
    }
    limited.traded.push_back(describe(current, again.costs));
    best = {limited, std::move(again), current};
  }
  const bool better =
      concurrent.has_value() && concurrent->fits && (!best.fits || concurrent->plan.makespan < best.plan.makespan);
  if (better) return *std::move(concurrent);
  if (best.fits || limit == 1) return best;
  // Values that were chosen for a small excess may leave a peak that others would have lowered.
  LimitedStep least = plan_step(std::move(problem), policy, policy_name, 1);
  least.fits = least.plan.arena_bytes <= limit;
  return least.plan.arena_bytes < best.plan.arena_bytes ? least : best;
}

double LimitedStages::makespan() const { return std::ranges::max(runs, {}, &Simulation::makespan).makespan; }

std::int64_t LimitedStages::arena_bytes() const {
  std::int64_t most = 0;
  for (const LimitedStep& step : steps) most = std::max(most, step.plan.arena_bytes);
  return most;
}

bool LimitedStages::fits() const { return std::ranges::all_of(steps, &LimitedStep::fits); }

LimitedStages plan_stages(std::vector<Problem> stages, Policy policy, std::string_view policy_name,
                          std::int64_t limit) {
  LimitedStages planned;
  for (Problem& stage : stages) planned.steps.push_back(plan_step(std::move(stage), policy, policy_name, limit));
  std::vector<RankPlan> ranks;
  for (const LimitedStep& step : planned.steps) ranks.push_back({&step.problem, &step.plan});
  planned.runs = simulate(ranks);
  return planned;
}

std::string does_not_fit(std::int64_t arena_bytes, std::span<const std::string> traded, std::int64_t limit) {
  return message("[memory] the step does not fit into the memory limit of ", mebibytes(limit),
                 ": the smallest arena found takes ", mebibytes(arena_bytes), traded.empty() ? "" : ", with ",
                 comma_list(traded, "; "));
}

}  // namespace braid::scheduler
