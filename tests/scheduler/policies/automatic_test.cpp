#include <doctest/doctest.h>

#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
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
