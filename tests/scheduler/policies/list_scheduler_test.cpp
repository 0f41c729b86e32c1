#include "scheduler/policies/list_scheduler.h"

#include <doctest/doctest.h>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

Schedule listed(const StepGraph& graph, const Costs& costs, int streams, int capacity, ListRules rules = {},
                bool oversubscribes = false) {
  const Edges edges = graph.edges();
  if (rules.priorities.empty()) rules.priorities = bottom_levels(edges, costs);
  return list_schedule(make_problem(graph, costs, streams, capacity, oversubscribes), rules);
}

}  // namespace

TEST_CASE("a wide node waits for capacity, and only nodes that finish by then may start before it") {
  StepGraph graph;  // 0: long and narrow; 1 -> 2 -> 3: in the middle a node that is fast only on both cores; 4: filler
  add(graph, {});
  add(graph, {add(graph, {add(graph, {})})});
  add(graph, {});
  const auto schedule_with_filler = [&](double filler) {
    const Costs costs = costs_of({{{1, 10}}, {{1, 2}}, {{1, 30}, {2, 5}}, {{1, 6}}, {{1, filler}}});
    return listed(graph, costs, 2, 2, {.sharing = Sharing::fastest});
  };
  const Schedule fits = schedule_with_filler(8);
  CHECK(fits.makespan == 21);
  CHECK(fits.placements[4].start == 2);
  CHECK(fits.placements[2].start == 10);
  CHECK(fits.placements[2].implementation == 1);
  const Schedule too_long = schedule_with_filler(9);
  CHECK(too_long.makespan == 24);
  CHECK(too_long.placements[2].start == 10);
  CHECK(too_long.placements[4].start == 15);
}

TEST_CASE("a node that is held back starts no earlier than the one it waits for") {
  StepGraph graph;  // 0 is long and alone; 1 -> 2, where 2 needs both cores
  add(graph, {});
  add(graph, {add(graph, {})});
  const Costs costs = costs_of({{{1, 10}}, {{1, 1}}, {{2, 1}}});
  const Schedule greedy = listed(graph, costs, 2, 2);
  CHECK(greedy.makespan == 11);
  CHECK(greedy.placements[2].start == 10);
  const Schedule patient = listed(graph, costs, 2, 2, {.priorities = {1, 9, 9}, .start_orders = {{2, 0}}});
  CHECK(patient.placements[2].start == 1);
  CHECK(patient.placements[0].start == 2);
  const Schedule locked = listed(graph, costs, 2, 2, {.start_orders = {{0, 1}, {1, 0}}});
  CHECK(locked.order.empty());
}

TEST_CASE("a node runs with the given implementation") {
  StepGraph graph;
  add(graph, {});
  const Costs costs = costs_of({{{1, 3}, {2, 2}}});
  CHECK(listed(graph, costs, 1, 2).makespan == 2);
  CHECK(listed(graph, costs, 1, 2, {.implementations = {0}}).makespan == 3);
}

TEST_CASE("nodes that share units slow each other in proportion, and all of the capacity is used") {
  StepGraph graph;  // 2 follows 0
  add(graph, {add(graph, {})});
  add(graph, {});
  const Costs costs = costs_of({{{8, 3}}, {{2, 1}}, {{8, 6}}});
  const Schedule apart = listed(graph, costs, 2, 10, {.oversubscription = 1}, true);
  CHECK(apart.makespan == 10);
  const Schedule together = listed(graph, costs, 2, 10, {.oversubscription = 2}, true);
  CHECK(together.placements[2].start == 0);
  // Until 0 finishes both run at 10/16 of their speed. Then 1 and 2 fit together.
  CHECK(together.placements[0].finish == doctest::Approx(3 * 1.6));
  CHECK(together.placements[1].finish == doctest::Approx(3 * 1.6 + 1));
  CHECK(together.makespan == doctest::Approx(3 * 1.6 + 3));
}

}  // namespace braid::scheduler::testing
