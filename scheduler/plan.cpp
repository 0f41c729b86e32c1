#include "scheduler/plan.h"

#include <algorithm>
#include <iterator>

#include "scheduler/check/simulator.h"
#include "scheduler/memory/sharing_edges.h"

namespace braid::scheduler {

namespace {

/// An arena this many times as large as the bytes in use at one time is worth waits that cost no time.
constexpr double kWasteful = 1.05;

/// Whether the times of a step are its own. A rank of a pipeline waits for others, which no plan of one rank predicts.
bool predicts_its_times(const StepGraph& graph) {
  return std::ranges::none_of(graph.launched_nodes(),
                              [&](NodeId node) { return graph.communication(node).exchanged.has_value(); });
}

Plan with_memory(const Problem& problem, const Schedule& schedule, std::string_view policy_name) {
  Plan plan = plan_commands(problem, schedule, policy_name);
  plan_memory(problem.graph, problem.costs, plan);
  return plan;
}

}  // namespace

Plan make_plan(const Problem& problem, Policy policy, std::string_view policy_name) {
  check_problem(problem);
  Schedule schedule = policy(problem);
  Plan plan = plan_schedule(problem, schedule, policy_name);
  if (problem.log != nullptr) {
    Plan same;
    const auto policys = static_cast<std::ptrdiff_t>(schedule.resource_edges.size());
    problem.log->memory_edges.assign(plan.resource_edges.begin() + policys, plan.resource_edges.end());
    schedule.resource_edges = plan.resource_edges;
    add_commands(problem.edges, schedule, problem.all_streams(), same, problem.log);
  }
  require_safe(problem, plan);
  return plan;
}

Plan plan_schedule(const Problem& problem, const Schedule& schedule, std::string_view policy_name, bool adds_waits) {
  Plan plan = with_memory(problem, schedule, policy_name);
  const bool wasteful = static_cast<double>(plan.arena_bytes) > kWasteful * static_cast<double>(plan.live_bytes);
  if (adds_waits && wasteful && predicts_its_times(problem.graph)) {
    Schedule ordered = schedule;
    std::ranges::copy(sharing_edges(problem, schedule, plan), std::back_inserter(ordered.resource_edges));
    Plan leaner = with_memory(problem, ordered, policy_name);
    const bool slower = simulate(problem, leaner).makespan > (1 + 1e-9) * simulate(problem, plan).makespan;
    if (leaner.arena_bytes < plan.arena_bytes && !slower) plan = std::move(leaner);
  }
  plan.bound = lower_bound(problem);
  return plan;
}

Plan plan_commands(const Problem& problem, const Schedule& schedule, std::string_view policy_name) {
  Plan plan;
  plan.policy = schedule.kept.empty() ? std::string(policy_name) : message(policy_name, " (", schedule.kept, ")");
  plan.placements = schedule.placements;
  plan.resource_edges = schedule.resource_edges;
  plan.makespan = schedule.makespan;
  add_commands(problem.edges, schedule, problem.all_streams(), plan);
  return plan;
}

void require_safe(const Problem& problem, const Plan& plan) {
  const std::vector<std::string> faults = verify_plan(problem.graph, problem.costs, plan);
  if (faults.empty()) return;
  constexpr std::size_t kShown = 3;
  std::string text = message("[plan] policy '", plan.policy, "' made an unsafe plan:");
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) text += "\n  " + faults[i];
  if (faults.size() > kShown) text += message("\n  and ", faults.size() - kShown, " more");
  throw PlanError(text);
}

}  // namespace braid::scheduler
