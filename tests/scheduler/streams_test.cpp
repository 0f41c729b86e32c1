#include <doctest/doctest.h>

#include "scheduler/simulator.h"
#include "tests/scheduler/schedules.h"

namespace braid::testing {
namespace {

/// A schedule of so many microseconds each, with streams assigned.
Schedule assigned(const StepGraph& graph, const std::vector<std::pair<double, double>>& times, int streams,
                  StreamChoice preference = StreamChoice::few_waits) {
  const Edges edges = graph.edges();
  const Costs costs = unit_costs(graph);
  Schedule schedule;
  for (const auto& [start, finish] : times) schedule.placements.push_back({.start = start, .finish = finish});
  assign_streams({graph, edges, costs, streams, streams, true}, schedule, preference);
  return schedule;
}

}  // namespace

TEST_CASE("a node follows the predecessor that saves it a wait, and leaves others to the nodes that follow them") {
  StepGraph graph;  // 0 -> 3 and 1 -> 4; 2 is alone, and there are three streams
  const ValueId a = add(graph, {}), b = add(graph, {});
  add(graph, {});
  add(graph, {a});
  add(graph, {b});
  // 2 comes between: on the stream of 0 or of 1 it would cost a wait.
  const Schedule schedule = assigned(graph, {{0, 1}, {0, 2}, {2, 3}, {4, 5}, {4, 5}}, 3);
  CHECK(schedule.placements[3].stream == schedule.placements[0].stream);
  CHECK(schedule.placements[4].stream == schedule.placements[1].stream);
  CHECK(schedule.placements[2].stream != schedule.placements[0].stream);
  CHECK(schedule.placements[2].stream != schedule.placements[1].stream);
}

TEST_CASE("a node held for lack of units follows one that gives some back, if it is to start on time") {
  StepGraph graph;  // 0 -> 3, which starts late; 1 is over just then
  const ValueId a = add(graph, {});
  add(graph, {});
  add(graph, {});
  add(graph, {a});
  const std::vector<std::pair<double, double>> times{{0, 1}, {0, 3}, {0, 4}, {3, 5}};
  const Schedule few = assigned(graph, times, 3);
  CHECK(few.placements[3].stream == few.placements[0].stream);
  const Schedule on_time = assigned(graph, times, 3, StreamChoice::on_time);
  CHECK(on_time.placements[3].stream == on_time.placements[1].stream);
}

TEST_CASE("more nodes at once than there are streams are refused") {
  StepGraph graph;
  add(graph, {});
  add(graph, {});
  CHECK_THROWS_WITH_AS(assigned(graph, {{0, 2}, {1, 2}}, 1), "[streams] no stream of 1 is free when node 1 starts",
                       PlanError);
}

TEST_CASE("where units are shared the critical path's plan takes the time that it predicts") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStep step = random_step(seed);
    const Edges edges = step.graph.edges();
    for (const int streams : {1, 2, 4, 8}) {
      const Problem problem{step.graph, edges, step.costs, streams, step.capacity, true};
      const Plan plan = make_plan(problem, critical_path, "critical_path");
      REQUIRE(simulate(problem, plan).makespan == doctest::Approx(plan.makespan));
      REQUIRE(plan.makespan >= plan.bound.bound * (1 - 1e-9));
      REQUIRE(plan.makespan <= serial(problem).makespan * (1 + 1e-9));
    }
  }
}

}  // namespace braid::testing
