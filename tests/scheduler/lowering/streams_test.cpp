#include <doctest/doctest.h>

#include "scheduler/memory/lean_schedule.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

/// A schedule with these starts and finishes, with streams assigned.
Schedule assigned(const StepGraph& graph, const std::vector<std::pair<double, double>>& times, int streams,
                  StreamPreference preference = StreamPreference::few_waits) {
  const Costs costs = unit_costs(graph);
  Schedule schedule;
  for (const auto& [start, finish] : times) schedule.placements.push_back({.start = start, .finish = finish});
  assign_streams(make_problem(graph, costs, streams, streams, true), schedule, preference);
  return schedule;
}

/// The times of a policy that knows other streams.
template <StreamPreference preference>
Schedule matching_times(const Problem& problem) {
  Schedule schedule = matching(problem);
  assign_streams(problem, schedule, preference);
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
  StepGraph graph;  // 0 -> 3, which starts late; 1 finishes just then
  const ValueId a = add(graph, {});
  add(graph, {});
  add(graph, {});
  add(graph, {a});
  const std::vector<std::pair<double, double>> times{{0, 1}, {0, 3}, {0, 4}, {3, 5}};
  const Schedule few = assigned(graph, times, 3);
  CHECK(few.placements[3].stream == few.placements[0].stream);
  const Schedule on_time = assigned(graph, times, 3, StreamPreference::on_time);
  CHECK(on_time.placements[3].stream == on_time.placements[1].stream);
}

TEST_CASE("an update comes late if the next node of its stream then waits for both") {
  StepGraph graph;  // a chain 0, 1, 3, 5, 6; 2, 4 and 7 alongside; and 8, which reads 1 and 2 and has no readers
  const ValueId a = add(graph, {}), b = add(graph, {a}), gradient = add(graph, {a}), c = add(graph, {b});
  const ValueId next = add(graph, {c});
  add(graph, {add(graph, {c})});
  add(graph, {next});
  add(graph, {gradient, b});
  const std::vector<std::pair<double, double>> times{{0, 1}, {1, 2}, {1, 2}, {2, 3},  {3.5, 4},
                                                     {3, 4}, {4, 5}, {4, 5}, {2, 2.5}};
  const auto waits = [&](const Schedule& schedule) {
    const Costs costs = unit_costs(graph);
    return plan_commands(make_problem(graph, costs, 2, 2, true), schedule, "").commands.waits();
  };
  const Schedule few = assigned(graph, times, 2), late = assigned(graph, times, 2, StreamPreference::late_updates);
  CHECK(few.order == std::vector<NodeId>{0, 1, 2, 3, 8, 5, 4, 6, 7});
  CHECK(waits(few) == 3);
  CHECK(late.order == std::vector<NodeId>{0, 1, 2, 3, 5, 4, 8, 6, 7});
  CHECK(late.placements[8].stream == late.placements[4].stream);
  CHECK(waits(late) == 2);
}

TEST_CASE("plans in which updates come late are safe, also where other nodes are to follow them") {
  int fewer = 0;
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    const RandomStep step = random_step(seed, 40);
    for (const int streams : {2, 4}) {
      const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity, true);
      const auto plan_of = [&](const Schedule& schedule) {
        INFO("seed ", seed, ", ", streams, " streams");
        Plan plan = plan_commands(problem, schedule, "");
        plan_memory(step.graph, step.costs, plan);
        REQUIRE(SafetyOracle(step.graph, step.costs, plan).safe());
        return plan;
      };
      plan_of(lean_schedule(problem, matching_times<StreamPreference::late_updates>, 5));
      const Plan late = plan_of(matching_times<StreamPreference::late_updates>(problem));
      const Plan few = plan_of(matching_times<StreamPreference::few_waits>(problem));
      fewer += late.commands.waits() < few.commands.waits() ? 1 : 0;
    }
  }
  CHECK(fewer > some_of(20));
}

TEST_CASE("a stream that does not exist is refused") {
  CHECK_THROWS_AS(commands_of(independent(1), on_streams({2}), 2), PlanError);
}

TEST_CASE("more nodes at once than there are streams are refused") {
  const StepGraph graph = independent(2);
  CHECK_THROWS_WITH_AS(assigned(graph, {{0, 2}, {1, 2}}, 1), "[streams] no stream of 1 is free when node 1 starts",
                       PlanError);
}

}  // namespace braid::scheduler::testing
