#include "scheduler/plan.h"

#include <algorithm>

namespace braid::scheduler {

Plan make_plan(const Problem& problem, Policy policy, std::string_view policy_name) {
  check_problem(problem);
  Plan plan = plan_commands(problem, policy(problem), policy_name);
  plan.bound = lower_bound(problem);
  plan_memory(problem.graph, problem.costs, plan);
  require_safe(problem, plan);
  return plan;
}

Plan plan_commands(const Problem& problem, const Schedule& schedule, std::string_view policy_name) {
  Plan plan;
  plan.policy = schedule.kept.empty() ? std::string(policy_name) : message(policy_name, " (", schedule.kept, ")");
  plan.placements = schedule.placements;
  plan.resource_edges = schedule.resource_edges;
  plan.makespan = schedule.makespan;
  add_commands(problem.edges, schedule, problem.all_streams(), plan, problem.log);
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
