#include <doctest/doctest.h>

#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;
using Commands = std::vector<Command>;

/// A schedule that puts node i on streams[i], in recording order.
Schedule on_streams(const std::vector<int>& streams) {
  Schedule schedule;
  for (const int stream : streams) {
    schedule.order.push_back(static_cast<NodeId>(schedule.placements.size()));
    schedule.placements.push_back({.stream = stream});
  }
  return schedule;
}

Plan commands_of(const StepGraph& graph, const Schedule& schedule, int streams) {
  Plan plan;
  plan.placements = schedule.placements;
  add_commands(graph.edges(), schedule, streams, plan);
  return plan;
}

}  // namespace

TEST_CASE("a node waits for predecessors on other streams and signals successors there") {
  StepGraph graph;  // a diamond
  const ValueId a = add(graph, {}), b = add(graph, {a}), c = add(graph, {a});
  add(graph, {b, c});
  const Plan plan = commands_of(graph, on_streams({0, 0, 1, 0}), 2);
  CHECK(plan.commands.streams[0] ==
        Commands{{Kind::launch, 0}, {Kind::record, 0}, {Kind::launch, 1}, {Kind::wait, 1}, {Kind::launch, 3}});
  CHECK(plan.commands.streams[1] == Commands{{Kind::wait, 0}, {Kind::launch, 2}, {Kind::record, 1}});
  CHECK(plan.commands.events == 2);
  CHECK(plan.commands.waits() == 2);
}

TEST_CASE("a wait is dropped when another stream already ordered the two nodes") {
  StepGraph graph;  // 2 reads 0 and 1, and 1 reads 0
  const ValueId a = add(graph, {}), b = add(graph, {a});
  add(graph, {a, b});
  const Plan plan = commands_of(graph, on_streams({0, 1, 2}), 3);
  CHECK(plan.commands.streams[2] == Commands{{Kind::wait, 1}, {Kind::launch, 2}});
  CHECK(plan.commands.waits() == 2);
}

TEST_CASE("a wait is dropped when an earlier node of the same stream already waited") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  add(graph, {a});
  add(graph, {a});
  const Plan plan = commands_of(graph, on_streams({0, 1, 1}), 2);
  CHECK(plan.commands.streams[1] == Commands{{Kind::wait, 0}, {Kind::launch, 1}, {Kind::launch, 2}});
}

TEST_CASE("of two predecessors on one stream only the later is awaited") {
  StepGraph graph;
  const ValueId a = add(graph, {}), b = add(graph, {});
  add(graph, {a, b});
  const Plan plan = commands_of(graph, on_streams({0, 0, 1}), 2);
  CHECK(plan.commands.streams[0] == Commands{{Kind::launch, 0}, {Kind::launch, 1}, {Kind::record, 0}});
  CHECK(plan.commands.streams[1] == Commands{{Kind::wait, 0}, {Kind::launch, 2}});
}

TEST_CASE("one event serves all streams that wait for the same node") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  for (int i = 0; i < 3; ++i) add(graph, {a});
  const Plan plan = commands_of(graph, on_streams({0, 1, 2, 3}), 4);
  CHECK(plan.commands.events == 1);
  CHECK(plan.commands.waits() == 3);
}

TEST_CASE("a fork and join over four streams needs one wait a stream each way") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  std::vector<ValueId> branches;
  for (int i = 0; i < 8; ++i) branches.push_back(add(graph, {a}));
  add(graph, branches);
  const Plan plan = make_plan(graph, unit_costs(graph), critical_path, "critical_path", 4, 4);
  CHECK(plan.makespan == 4);
  CHECK(plan.commands.waits() == 6);
  CHECK(plan.commands.events == 4);
}

TEST_CASE("the next version of a parameter waits for readers of the previous one") {
  StepGraph graph;
  const ValueId weight = graph.add_persistent(bytes_desc(64), ValueKind::parameter, 0);
  add(graph, {weight});
  OutputDesc next = bytes_output(64);
  next.overwrites = 0;
  graph.add_node(std::make_shared<TestOp>(std::vector{next}), {weight});
  const Plan plan = commands_of(graph, on_streams({0, 1}), 2);
  CHECK(plan.commands.streams[1] == Commands{{Kind::wait, 0}, {Kind::launch, 1}});
}

TEST_CASE("resource edges are ordered like data, and views are not launched") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  OutputDesc view = bytes_output(256);
  view.views = 0;
  const ValueId viewed = graph.add_node(std::make_shared<TestOp>(std::vector{view}), {a});
  add(graph, {});
  add(graph, {viewed});
  Schedule schedule = on_streams({0, 0, 1, 1});
  schedule.order = {0, 2, 3};
  schedule.resource_edges = {{0, 2}};
  const Plan plan = commands_of(graph, schedule, 2);
  CHECK(plan.commands.streams[0] == Commands{{Kind::launch, 0}, {Kind::record, 0}});
  CHECK(plan.commands.streams[1] == Commands{{Kind::wait, 0}, {Kind::launch, 2}, {Kind::launch, 3}});
}

TEST_CASE("a stream that does not exist is refused") {
  StepGraph graph;
  add(graph, {});
  CHECK_THROWS_AS(commands_of(graph, on_streams({2}), 2), PlanError);
}

}  // namespace braid::scheduler::testing
