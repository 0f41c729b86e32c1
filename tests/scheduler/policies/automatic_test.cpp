#include <doctest/doctest.h>

#include "scheduler/check/simulator.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

/// The simulated makespan of a plan by this policy.
double makespan(const Problem& problem, const NamedPolicy& named) {
  return simulate(problem, make_plan(problem, named.policy, named.name)).makespan;
}

}  // namespace

TEST_CASE("the automatic policy is as fast as the best of the others, and names it") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStep step = random_step(seed, 30);
    const Problem problem = make_problem(step.graph, step.costs, 3, step.capacity, seed % 2 == 0);
    double best = std::numeric_limits<double>::infinity();
    for (const NamedPolicy& named : kPolicies) {
      if (named.name == "auto" || step.graph.node_count() > named.max_nodes) continue;
      best = std::min(best, makespan(problem, named));
    }
    const Plan plan = make_plan(problem, automatic, "auto");
    CHECK(simulate(problem, plan).makespan <= best * (1 + 1e-8));
    CHECK(plan.policy.starts_with("auto ("));
    const std::string kept = plan.policy.substr(6, plan.policy.size() - 7);
    CHECK(make_plan(problem, find_policy(kept), kept).commands.streams == plan.commands.streams);
  }
}

TEST_CASE("the automatic policy stays on one stream where concurrency hinders more than it helps") {
  StepGraph graph;
  add(graph, {});
  add(graph, {});
  const Costs costs = unit_costs(graph);
  Problem problem = make_problem(graph, costs, 2, 2);
  CHECK(make_plan(problem, automatic, "auto").policy != "auto (serial)");
  problem.interference.set_kind(0, 0, 0);
  problem.interference.set_kind(1, 0, 0);
  problem.interference.set_factor(0, 0, 2.5);
  CHECK(make_plan(problem, automatic, "auto").policy == "auto (serial)");
}

}  // namespace braid::scheduler::testing
