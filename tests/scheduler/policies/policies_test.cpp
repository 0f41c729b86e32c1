#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "core/text/text.h"
#include "scheduler/schedule_log.h"
#include "tests/scheduler/least_makespan.h"
#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

using Edge = std::pair<NodeId, NodeId>;

}  // namespace

TEST_CASE("policies are found by name, and an unknown name is answered with the list") {
  CHECK((find_policy("serial") == &serial));
  CHECK((find_policy("critical_path") == static_cast<Policy>(critical_path)));
  CHECK((find_policy("auto") == &automatic));
  const std::vector<std::string> names = policy_names();
  CHECK(std::ranges::count(names, "round_robin") == 1);
  const std::string error = "[policy] expected one of " + comma_list(names) + ", got 'fifo'";
  CHECK_THROWS_WITH_AS(find_policy("fifo"), error.c_str(), Error);
}

TEST_CASE("serial runs every node on stream 0 at its fastest width, in recording order where nothing frees memory") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  add(graph, {});
  add(graph, {a});
  const Costs costs = costs_of({{{1, 4}, {2, 3}}, {{1, 2}, {2, 5}}, {{1, 1}}});
  const Schedule schedule = schedule_of(serial, graph, costs, 3, 2);
  CHECK(schedule.order == std::vector<NodeId>{0, 1, 2});
  CHECK(schedule.placements[0] == Placement{.stream = 0, .implementation = 1, .start = 0, .finish = 3});
  CHECK(schedule.placements[1] == Placement{.stream = 0, .implementation = 0, .start = 3, .finish = 5});
  CHECK(schedule.placements[2] == Placement{.stream = 0, .implementation = 0, .start = 5, .finish = 6});
  CHECK(schedule.makespan == 6);
  CHECK(schedule.resource_edges.empty());
}

TEST_CASE("equal branches run side by side, unequal ones in turn at full width") {
  const StepGraph graph = independent(2);
  const Schedule equal = schedule_of(critical_path, graph, costs_of({{{1, 10}, {2, 6}}, {{1, 10}, {2, 6}}}), 2, 2);
  CHECK(equal.makespan == 10);
  CHECK(equal.placements[0].implementation == 0);
  CHECK(equal.placements[1].implementation == 0);
  const Schedule unequal =
      schedule_of(critical_path, graph, costs_of({{{1, 10}, {2, 5.5}}, {{1, 2}, {2, 1.25}}}), 2, 2);
  CHECK(unequal.makespan == 6.75);
  CHECK(unequal.placements[0].implementation == 1);
  CHECK(unequal.placements[1].implementation == 1);
}

TEST_CASE("a narrow node follows the predecessor that finished last") {
  StepGraph graph;  // two equal chains; 0 starts first, on stream 0; of the next two nodes 2 starts first
  const ValueId a = add(graph, {}), b = add(graph, {});
  const ValueId after_b = add(graph, {b}), after_a = add(graph, {a});
  add(graph, {after_a, after_b});
  const auto schedule_with_join = [&](double last_of_b) {
    const Costs costs = costs_of({{{1, 1}}, {{1, 1}}, {{1, last_of_b}}, {{1, 3}}, {{1, 2}}});
    return schedule_of(critical_path, graph, costs, 2, 2);
  };
  const Schedule narrow = schedule_with_join(3);
  CHECK(narrow.placements[2].stream == narrow.placements[1].stream);
  CHECK(narrow.placements[3].stream == narrow.placements[0].stream);
  CHECK(narrow.placements[0].stream == 0);
  const Schedule shorter = schedule_with_join(2.5);  // now 0 -> 3 is the longer chain, and finishes last
  CHECK(shorter.placements[4].stream == shorter.placements[3].stream);
}

TEST_CASE("a wide node goes to stream 0 even if its predecessor ran elsewhere") {
  StepGraph graph;
  add(graph, {});
  add(graph, {add(graph, {})});
  const Costs costs = costs_of({{{1, 5}}, {{1, 3}}, {{2, 1}}});  // 0 has the longest path and takes stream 0
  const Schedule schedule = schedule_of(critical_path, graph, costs, 2, 2);
  CHECK(schedule.makespan == 6);
  CHECK(schedule.placements[1].stream == 1);
  CHECK(schedule.placements[2].stream == 0);
}

TEST_CASE("capacity is handed over from a finished node to a wide one by a resource edge") {
  StepGraph graph;  // 0 -> 2 and 1 are independent; 2 needs both cores, so it must be kept apart from 1
  const ValueId a = add(graph, {});
  add(graph, {});
  add(graph, {a});
  const Schedule schedule = schedule_of(critical_path, graph, costs_of({{{1, 3}}, {{1, 3}}, {{2, 1}}}), 2, 2);
  CHECK(schedule.makespan == 4);
  REQUIRE(schedule.placements[2].start == 3);
  CHECK(schedule.resource_edges == std::vector<Edge>{{1, 2}});
}

TEST_CASE("unused units are taken before those of other streams") {
  const StepGraph graph = independent(2);
  const Costs costs = unit_costs(graph);
  Schedule schedule;
  schedule.placements = {{.stream = 0, .start = 0, .finish = 1}, {.stream = 1, .start = 2, .finish = 3}};
  schedule.order = {0, 1};
  add_capacity_edges(make_problem(graph, costs, 2, 2), schedule);
  CHECK(schedule.resource_edges.empty());
  add_capacity_edges(make_problem(graph, costs, 2, 1), schedule);
  CHECK(schedule.resource_edges == std::vector<Edge>{{0, 1}});
}

TEST_CASE("a schedule beyond the capacity is refused") {
  const StepGraph graph = independent(2);
  const Costs costs = unit_costs(graph);
  Schedule schedule;
  schedule.placements = {{.stream = 0, .start = 0, .finish = 1}, {.stream = 1, .start = 0.5, .finish = 1.5}};
  schedule.order = {0, 1};
  CHECK_THROWS_AS(add_capacity_edges(make_problem(graph, costs, 2, 1), schedule), PlanError);
}

TEST_CASE("no resource edges where all nodes are narrow and there is a core for every stream") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    const RandomStep step = random_step(seed);
    const int streams = 1 + static_cast<int>(seed % 8);
    const Schedule schedule = schedule_of(critical_path, step.graph, unit_costs(step.graph), streams, streams);
    REQUIRE(schedule.resource_edges.empty());
  }
}

TEST_CASE("where units are shared a wide node stays on the stream of its predecessor") {
  StepGraph graph;  // two chains, of which the second ends later
  const ValueId a = add(graph, {}), b = add(graph, {});
  add(graph, {a});
  add(graph, {b});
  const Costs costs = costs_of({{{.width = 2, .duration = 5}},
                                {{.width = 2, .duration = 3}},
                                {{.width = 2, .duration = 3}},
                                {{.width = 2, .duration = 9}}});
  const Plan plan = make_plan(graph, costs, critical_path, "critical_path", 2, 4, true);
  CHECK(plan.placements[0].stream == plan.placements[2].stream);
  CHECK(plan.placements[1].stream == plan.placements[3].stream);
  CHECK(plan.commands.waits() == 0);
}

TEST_CASE("the automatic policy stays on one stream where concurrency hinders more than it helps") {
  const StepGraph graph = independent(2);
  const Costs costs = unit_costs(graph);
  Problem problem = make_problem(graph, costs, 2, 2);
  CHECK(make_plan(problem, automatic, "auto").policy != "auto (serial)");
  problem.interference.set_kind(0, 0, 0);
  problem.interference.set_kind(1, 0, 0);
  problem.interference.set_factor(0, 0, 2.5);
  CHECK(make_plan(problem, automatic, "auto").policy == "auto (serial)");
}

TEST_CASE(
    "critical_path is close to the least makespan on small graphs, and never below it; bottom levels alone are close, "
    "too") {
  double sum = 0, sum_by_level = 0;
  int problems = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomStep step = random_step(seed, 11, 8);
    for (const int streams : {2, 3, 4}) {
      Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
      ScheduleLog log;
      problem.log = &log;
      const double least = least_makespan(problem);
      const double found = critical_path(problem).makespan;
      INFO("seed ", seed, ", ", streams, " streams");
      REQUIRE(least >= lower_bound(problem).bound * (1 - 1e-9));
      REQUIRE(found >= least * (1 - 1e-9));
      REQUIRE(found <= least * 1.15);
      sum += least > 0 ? found / least : 1;
      // The attempts between serial and these go by bottom level. The search would repair any order of a small graph.
      const auto improved = std::ranges::find_if(
          log.attempts, [](const ScheduleLog::Attempt& attempt) { return attempt.rule.starts_with("by the times"); });
      double by_level = std::numeric_limits<double>::infinity();
      for (auto attempt = log.attempts.begin() + 1; attempt != improved; ++attempt)
        by_level = std::min(by_level, attempt->makespan);
      sum_by_level += least > 0 ? by_level / least : 1;
      ++problems;
    }
  }
  CHECK(sum / problems <= 1.01);
  CHECK(sum_by_level / problems <= 1.03);  // recording order instead of levels: 1.04
}

}  // namespace braid::scheduler::testing
