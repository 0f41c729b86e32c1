#include <doctest/doctest.h>

#include <bit>
#include <map>

#include "scheduler/policies/matching.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

std::vector<int> streams_of(const Schedule& schedule) {
  std::vector<int> streams;
  for (const Placement& placement : schedule.placements) streams.push_back(placement.stream);
  return streams;
}

using Set = std::uint32_t;  // nodes, a bit each

/// The least time of a sequence of stages, by trying all: a stage is a set of at most `streams` connected groups of at
/// most three nodes, and finishes before the next begins.
double best_stages(const Edges& edges, const Costs& costs, int streams, Set set, std::map<Set, double>& known) {
  if (set == 0) return 0;
  if (const auto it = known.find(set); it != known.end()) return it->second;
  double best = 1e30;
  for (Set ending = set; ending != 0; ending = (ending - 1) & set) {
    std::vector<Set> groups;
    bool closed = true;
    for (NodeId node = 0; node < edges.node_count(); ++node) {
      if (!(ending >> node & 1)) continue;
      Set group = Set{1} << node, touching = group;
      for (const NodeId other : edges.successors(node)) {
        touching |= Set{1} << other;
        closed &= !(set >> other & 1) || (ending >> other & 1);
      }
      for (const NodeId other : edges.predecessors(node)) touching |= Set{1} << other;
      for (const Set other : groups) group |= other & touching ? other : 0;
      std::erase_if(groups, [&](Set other) { return (other & group) != 0; });
      groups.push_back(group);
    }
    double latency = 0;
    for (const Set group : groups) {
      double duration = 0;
      for (NodeId node = 0; node < edges.node_count(); ++node) duration += group >> node & 1 ? costs.fastest(node) : 0;
      latency = std::max(latency, duration);
    }
    const bool small = std::ranges::all_of(groups, [](Set group) { return std::popcount(group) <= 3; });
    if (!closed || !small || std::ssize(groups) > std::min(streams, 8)) continue;
    best = std::min(best, latency + best_stages(edges, costs, streams, set & ~ending, known));
  }
  return known[set] = best;
}

}  // namespace

TEST_CASE("round robin deals the nodes of every level over the streams in turn") {
  StepGraph graph;
  const ValueId a = add(graph, {}), b = add(graph, {a});  // 1 is of the second level, 4 of the third
  add(graph, {});
  add(graph, {});
  add(graph, {b});
  add(graph, {a});
  const Schedule schedule = schedule_of(round_robin, graph, unit_costs(graph), 2, 2);
  CHECK(streams_of(schedule) == std::vector<int>{0, 0, 1, 0, 0, 1});
}

TEST_CASE("a path of matching joins the stream that is free first when it starts") {
  const StepGraph graph = independent(3);
  const Schedule schedule = schedule_of(matching, graph, costs_of({{{1, 5}}, {{1, 2}}, {{1, 1}}}), 2, 2);
  CHECK(streams_of(schedule) == std::vector<int>{0, 1, 1});
}

TEST_CASE("with a stream for every path matching waits once for each edge of the reduction that it does not use") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStep step = random_step(seed, 40);
    const Edges edges = step.graph.edges();
    const int streams = step.graph.node_count();
    const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity, true);
    if (problem.links > 0) continue;  // whose nodes are on separate streams
    const Schedule schedule = matching(problem);
    Plan plan;
    plan.placements = schedule.placements;
    add_commands(edges, schedule, streams, plan);

    const Edges reduced = transitive_reduction(edges);
    const std::vector<NodeId> next = maximum_matching(reduced);
    const auto matched = std::ssize(next) - std::ranges::count(next, kNoNode);
    REQUIRE(plan.commands.waits() == std::ssize(reduced.predecessor) - matched);

    Relation required = required_order(step.graph);
    close(required);
    for (const NodeId a : schedule.order) {  // what may run at the same time is on different streams
      for (const NodeId b : schedule.order) {
        if (a != b && schedule.placements[a].stream == schedule.placements[b].stream)
          REQUIRE((required[a][b] || required[b][a]));
      }
    }
  }
}

TEST_CASE("stages put branches on streams of their own and a chain on one") {
  StepGraph graph;  // 0 forks to 1 -> 2 and 3 -> 4, which join in 5; then a chain
  const ValueId a = add(graph, {});
  const ValueId b = add(graph, {add(graph, {a})}), c = add(graph, {add(graph, {a})});
  ValueId value = add(graph, {b, c});
  for (int i = 0; i < 6; ++i) value = add(graph, {value});
  const Schedule schedule = schedule_of(stages, graph, unit_costs(graph), 2, 2);
  CHECK(schedule.makespan == 10);
  const std::vector<int> streams = streams_of(schedule);
  CHECK(streams[1] == streams[2]);
  CHECK(streams[3] == streams[4]);
  CHECK(std::ranges::count(std::span(streams).subspan(5), streams[5]) == 7);
}

TEST_CASE("stages count how long nodes that run together take to share the capacity") {
  // Alongside the wide node 1, neither of the others finishes sooner; 0 and 2 run together.
  const StepGraph graph = independent(3);
  const Schedule schedule = schedule_of(stages, graph, costs_of({{{1, 4}}, {{2, 4}}, {{1, 3}}}), 2, 2);
  CHECK(schedule.makespan == 8);
}

TEST_CASE("stages take no longer than the best sequence of stages that brute force finds") {
  int below_serial = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomStep step = random_step(seed, 6);
    const Edges edges = step.graph.edges();
    Generator random(seed, 1);
    Costs costs;  // narrow nodes and a core for every stream: capacity is not what limits them
    Set launched = 0;
    for (NodeId node = 0; node < step.graph.node_count(); ++node) {
      const bool view = step.graph.node(node).is_view;
      const Cost cost{.width = 1, .duration = view ? 0.0 : 1.0 + random.below(9)};
      costs.add({&cost, 1});
      if (!view) launched |= Set{1} << node;
    }
    for (const int streams : {1, 2, 3}) {
      std::map<Set, double> known;
      const Schedule schedule = stages(make_problem(step.graph, costs, streams, streams));
      REQUIRE(schedule.makespan <= best_stages(edges, costs, streams, launched, known) * (1 + 1e-12));
      below_serial += schedule.makespan < serial(make_problem(step.graph, costs, streams, streams)).makespan ? 1 : 0;
    }
  }
  CHECK(below_serial > 200);
}

TEST_CASE("resource order places the ready node first that asks for the least of the device") {
  StepGraph graph;  // 3 becomes ready after 1 and asks for less than 2 and 0
  add(graph, {});
  const ValueId b = add(graph, {});
  add(graph, {});
  add(graph, {b});
  const Costs costs = costs_of({{{2, 4}}, {{2, 1}}, {{1, 7}}, {{3, 2}}});
  const Schedule schedule = schedule_of(resource_order, graph, costs, 1, 3);
  CHECK(schedule.order == std::vector<NodeId>{1, 3, 2, 0});
}

TEST_CASE("in resource order a node follows a predecessor that is the last of its stream, others take the free one") {
  const StepGraph graph = diamond();  // node 2 asks for less than node 1
  const Schedule schedule =
      schedule_of(resource_order, graph, costs_of({{{1, 1}}, {{1, 4}}, {{1, 3}}, {{1, 1}}}), 3, 3);
  CHECK(streams_of(schedule) == std::vector<int>{0, 1, 0, 1});  // 3 goes where 1, the later to finish, was
}

}  // namespace braid::scheduler::testing
