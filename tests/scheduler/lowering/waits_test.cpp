#include <doctest/doctest.h>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;
using Commands = std::vector<Command>;

}  // namespace

TEST_CASE("a node waits for predecessors on other streams and signals successors there") {
  const StepGraph graph = diamond();
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

TEST_CASE("a stream that does not exist is refused") {
  StepGraph graph;
  add(graph, {});
  CHECK_THROWS_AS(commands_of(graph, on_streams({2}), 2), PlanError);
}

}  // namespace braid::scheduler::testing
