#include <doctest/doctest.h>

#include <limits>

#include "tests/faults.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;

/// A diamond on two streams with a workspace each: 0 -> 1 (stream 0), 0 -> 2 (stream 1), {1, 2} -> 3 (stream 0).
struct Diamond {
  StepGraph graph = diamond();
  Costs costs;
  Plan plan;

  Diamond() {
    for (const double duration : {1.0, 3.0, 2.0, 1.0}) {
      const Cost cost{.width = 1, .duration = duration, .workspace_bytes = 100};
      costs.add({&cost, 1});
    }
    plan = make_plan(graph, costs, critical_path, "critical_path", 2, 2);
  }
  std::vector<std::string> faults() const { return verify_plan(graph, costs, plan); }
};

}  // namespace

TEST_CASE("a fault is reported with what is wrong, and where") {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 256 * 256;
  struct Damage {
    std::string fault;
    void (*apply)(Plan&);
  };
  const Damage damages[] = {
      {"node 2 'test' on stream 1 reads value 0 but is not ordered after node 0 'test' on stream 0, which writes it.",
       [](Plan& plan) {
         std::erase(plan.commands.streams[1], Command{Kind::wait, 0});
       }},
      {"node 3 'test' on stream 0 is launched 0 times",
       [](Plan& plan) {
         std::erase(plan.commands.streams[0], Command{Kind::launch, 3});
       }},
      {"node 3 'test' on stream 0 is launched 2 times",
       [](Plan& plan) {
         plan.commands.streams[0].push_back({Kind::launch, 3});
       }},
      {"Stream 1 launches node 3 'test' on stream 0",
       [](Plan& plan) {
         plan.commands.streams[1].push_back({Kind::launch, 3});
       }},
      {"node 4, which does not exist",
       [](Plan& plan) {
         plan.commands.streams[0].push_back({Kind::launch, 4});
       }},
      {"has implementation 1 of 1", [](Plan& plan) { plan.placements[3].implementation = 1; }},
      {"Event 0 is recorded 0 times",
       [](Plan& plan) {
         std::erase(plan.commands.streams[0], Command{Kind::record, 0});
       }},
      {"Event 0 is recorded 2 times",
       [](Plan& plan) {
         plan.commands.streams[0].push_back({Kind::record, 0});
       }},
      {"event 2, which does not exist",
       [](Plan& plan) {
         plan.commands.streams[0].push_back({Kind::wait, 2});
       }},
      {"Stream 1 waits for event 0 forever: deadlock",
       [](Plan& plan) {
         plan.commands.streams[0].insert(plan.commands.streams[0].begin(), {Kind::wait, 1});
       }},
      {"resource edge from node 1 'test' on stream 0 to node 2 'test' on stream 1 is not enforced",
       [](Plan& plan) {
         plan.resource_edges = {{1, 2}};
       }},
      {"refers to a node that is not launched",
       [](Plan& plan) {
         plan.resource_edges = {{0, 4}};
       }},
      {"but is not ordered after", [](Plan& plan) { plan.offsets[2] = plan.offsets[1]; }},
      {"is not aligned to 256 bytes", [](Plan& plan) { plan.offsets[0] += 1; }},
      {"Value 0 of 256 bytes at -256 is not inside the arena of ", [](Plan& plan) { plan.offsets[0] = -256; }},
      {"is not inside the arena", [](Plan& plan) { plan.offsets[0] = plan.arena_bytes; }},
      {"is not inside the arena", [](Plan& plan) { plan.offsets[0] = kFar; }},
      {"Value 0 overlaps the workspace of stream 1", [](Plan& plan) { plan.offsets[0] = plan.workspaces[1].offset; }},
      {"workspaces of streams 0 and 1 overlap",
       [](Plan& plan) { plan.workspaces[1].offset = plan.workspaces[0].offset; }},
      {"node 2 'test' on stream 1 needs 100 bytes of workspace, its stream has 99",
       [](Plan& plan) { plan.workspaces[1].bytes = 99; }},
      {"workspace of stream 1 is not inside the arena",
       [](Plan& plan) { plan.workspaces[1].offset = plan.arena_bytes; }},
      {"workspace of stream 0 is not inside the arena", [](Plan& plan) { plan.workspaces[0].offset = kFar; }},
  };
  for (const auto& [fault, apply] : damages) {
    Diamond d;
    apply(d.plan);
    CAPTURE(joined(d.faults()));
    CHECK_MESSAGE(mentions(d.faults(), fault), fault);
  }
}

TEST_CASE("a view has implementations too") {
  Diamond d;
  add_view(d.graph, 0);
  const Cost cost;
  d.costs.add({&cost, 1});
  d.plan = make_plan(d.graph, d.costs, critical_path, "critical_path", 2, 2);
  d.plan.placements[4].implementation = 1;
  CHECK(mentions(d.faults(), "has implementation 1 of 1"));
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
  add_update(graph, {weight}, 64);
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
  const StepGraph graph = independent(100);
  Plan plan = make_plan(graph, unit_costs(graph), serial, "serial", 1, 1);
  plan.commands.streams[0].clear();
  CHECK(verify_plan(graph, unit_costs(graph), plan).size() == 20);
}

}  // namespace braid::scheduler::testing
