#include <doctest/doctest.h>

#include <limits>

#include "tests/faults.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;

/// A diamond on two streams with a workspace each: 0 -> 1 (stream 0), 0 -> 2 (stream 1), {1, 2} -> 3 (stream 0).
struct Diamond {
  StepGraph graph;
  Costs costs;
  Plan plan;

  Diamond() {
    const ValueId a = add(graph, {}), b = add(graph, {a}), c = add(graph, {a});
    add(graph, {b, c});
    for (const double duration : {1.0, 3.0, 2.0, 1.0}) {
      const Cost cost{.width = 1, .duration = duration, .workspace_bytes = 100};
      costs.add({&cost, 1});
    }
    plan = make_plan(graph, costs, critical_path, "critical_path", 2, 2);
  }
  std::vector<std::string> faults() const { return verify_plan(graph, costs, plan); }
};

}  // namespace

TEST_CASE("a plan without faults has none") { CHECK(Diamond().faults().empty()); }

TEST_CASE("a missing wait is named with both nodes, the value and the streams") {
  Diamond d;
  std::erase(d.plan.commands.streams[1], Command{Kind::wait, 0});
  REQUIRE(d.faults().size() >= 1);
  CHECK(d.faults()[0] ==
        "node 2 'test' on stream 1 reads value 0 but is not ordered after node 0 'test' on stream 0, which writes it.");
}

TEST_CASE("launches must be complete, single and on their own stream") {
  Diamond d;
  SUBCASE("dropped") {
    std::erase(d.plan.commands.streams[0], Command{Kind::launch, 3});
    CHECK(mentions(d.faults(), "node 3 'test' on stream 0 is launched 0 times"));
  }
  SUBCASE("twice") {
    d.plan.commands.streams[0].push_back({Kind::launch, 3});
    CHECK(mentions(d.faults(), "node 3 'test' on stream 0 is launched 2 times"));
  }
  SUBCASE("elsewhere") {
    std::erase(d.plan.commands.streams[0], Command{Kind::launch, 3});
    d.plan.commands.streams[1].push_back({Kind::launch, 3});
    CHECK(mentions(d.faults(), "Stream 1 launches node 3 'test' on stream 0"));
  }
  SUBCASE("unknown node") {
    d.plan.commands.streams[0].push_back({Kind::launch, 4});
    CHECK(mentions(d.faults(), "node 4, which does not exist"));
  }
  SUBCASE("unknown implementation") {
    d.plan.placements[3].implementation = 1;
    CHECK(mentions(d.faults(), "has implementation 1 of 1"));
  }
}

TEST_CASE("events must be recorded exactly once, and no stream may wait forever") {
  Diamond d;
  SUBCASE("dropped") {
    std::erase(d.plan.commands.streams[0], Command{Kind::record, 0});
    CHECK(mentions(d.faults(), "Event 0 is recorded 0 times"));
  }
  SUBCASE("twice") {
    d.plan.commands.streams[0].push_back({Kind::record, 0});
    CHECK(mentions(d.faults(), "Event 0 is recorded 2 times"));
  }
  SUBCASE("unknown") {
    d.plan.commands.streams[0].push_back({Kind::wait, 2});
    CHECK(mentions(d.faults(), "event 2, which does not exist"));
  }
  SUBCASE("crossed waits") {
    d.plan.commands.streams[0].insert(d.plan.commands.streams[0].begin(), {Kind::wait, 1});
    CHECK(mentions(d.faults(), "Stream 0 waits for event 1 forever: deadlock"));
    CHECK(mentions(d.faults(), "Stream 1 waits for event 0 forever: deadlock"));
  }
}

TEST_CASE("resource edges must be enforced") {
  Diamond d;
  d.plan.resource_edges = {{1, 2}};
  CHECK(mentions(d.faults(),
                 "resource edge from node 1 'test' on stream 0 to node 2 'test' on stream 1 is not enforced"));
  d.plan.resource_edges = {{0, 3}};
  CHECK(d.faults().empty());
  d.plan.resource_edges = {{0, 4}};
  CHECK(mentions(d.faults(), "refers to a node that is not launched"));
}

TEST_CASE("values in use at the same time must not overlap, not even by a byte") {
  Diamond d;
  d.plan.offsets[2] = d.plan.offsets[1];
  CHECK(mentions(d.faults(), "but is not ordered after"));
}

TEST_CASE("offsets must be aligned, inside the arena and outside the workspaces") {
  Diamond d;
  SUBCASE("alignment") {
    d.plan.offsets[0] += 1;
    CHECK(mentions(d.faults(), "is not aligned to 256 bytes"));
  }
  SUBCASE("negative") {
    d.plan.offsets[0] = -256;
    CHECK(mentions(d.faults(), "Value 0 of 256 bytes at -256 is not inside the arena of "));
  }
  SUBCASE("beyond the end") {
    d.plan.offsets[0] = d.plan.arena_bytes;
    CHECK(mentions(d.faults(), "is not inside the arena"));
  }
  SUBCASE("in a workspace") {
    d.plan.offsets[0] = d.plan.workspaces[1].offset;
    CHECK(mentions(d.faults(), "Value 0 overlaps the workspace of stream 1"));
  }
}

TEST_CASE("workspaces must be disjoint and large enough") {
  Diamond d;
  SUBCASE("overlap") {
    d.plan.workspaces[1].offset = d.plan.workspaces[0].offset;
    CHECK(mentions(d.faults(), "workspaces of streams 0 and 1 overlap"));
  }
  SUBCASE("too small") {
    d.plan.workspaces[1].bytes = 99;
    CHECK(mentions(d.faults(), "node 2 'test' on stream 1 needs 100 bytes of workspace, its stream has 99"));
  }
  SUBCASE("outside") {
    d.plan.workspaces[1].offset = d.plan.arena_bytes;
    CHECK(mentions(d.faults(), "workspace of stream 1 is not inside the arena"));
  }
}

TEST_CASE("numbers out of any range are faults, not overflows") {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 256 * 256;
  Diamond d;
  SUBCASE("a workspace") {
    d.plan.workspaces[0].offset = kFar;
    CHECK(mentions(d.faults(), "workspace of stream 0 is not inside the arena"));
  }
  SUBCASE("a value") {
    d.plan.offsets[0] = kFar;
    CHECK(mentions(d.faults(), "is not inside the arena"));
  }
  SUBCASE("the implementation of a view") {
    OutputDesc view = bytes_output(256);
    view.views = 0;
    d.graph.add_node(std::make_shared<TestOp>(std::vector{view}), {0});
    const Cost cost;
    d.costs.add({&cost, 1});
    d.plan = make_plan(d.graph, d.costs, critical_path, "critical_path", 2, 2);
    d.plan.placements[4].implementation = 1;
    CHECK(mentions(d.faults(), "has implementation 1 of 1"));
  }
}

TEST_CASE("a kept value may never be overwritten") {
  StepGraph graph;
  const ValueId kept = add(graph, {});
  graph.keep(kept);
  const ValueId later = add(graph, {add(graph, {kept})});
  const Costs costs = unit_costs(graph);
  Plan plan = make_plan(graph, costs, serial, "serial", 1, 1);
  plan.offsets[later] = plan.offsets[kept];
  CHECK(mentions(verify_plan(graph, costs, plan), "over value 0, which is kept to the end"));
}

TEST_CASE("a parameter may not be overwritten before its last reader") {
  StepGraph graph;
  const ValueId weight = graph.add_persistent(bytes_desc(64), ValueKind::parameter, 0);
  add(graph, {weight});
  OutputDesc next = bytes_output(64);
  next.overwrites = 0;
  graph.add_node(std::make_shared<TestOp>(std::vector{next}), {weight});
  const Costs costs = unit_costs(graph);
  Plan plan = make_plan(graph, costs, serial, "serial", 1, 1);
  std::swap(plan.commands.streams[0][0], plan.commands.streams[0][1]);
  CHECK(mentions(verify_plan(graph, costs, plan), "writes value 2 over value 0 but is not ordered after node 0"));
}

TEST_CASE("a plan for another graph is refused, not read out of bounds") {
  const Diamond d;
  StepGraph graph;
  add(graph, {});
  CHECK(!verify_plan(graph, unit_costs(graph), d.plan).empty());
  CHECK(!verify_plan(d.graph, d.costs, Plan{}).empty());
  CHECK(verify_plan(StepGraph{}, Costs{}, Plan{}).empty());
}

TEST_CASE("faults are reported up to a limit") {
  StepGraph graph;
  for (int i = 0; i < 100; ++i) add(graph, {});
  Plan plan = make_plan(graph, unit_costs(graph), serial, "serial", 1, 1);
  plan.commands.streams[0].clear();
  CHECK(verify_plan(graph, unit_costs(graph), plan).size() == 20);
}

}  // namespace braid::scheduler::testing
