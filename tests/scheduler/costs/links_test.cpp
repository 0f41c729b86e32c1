// Communication alongside computation: links as a resource of the scheduler.

#include <doctest/doctest.h>

#include "scheduler/check/simulator.h"
#include "tests/error_of.h"
#include "tests/faults.h"
#include "tests/scheduler/least_makespan.h"
#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

Cost on_link(double duration, int width = 0) { return {.width = width, .duration = duration, .link = 0}; }

/// A backward pass of three layers, 2 us each, whose gradients are sent, 3 us each, and then applied, 1 us each.
struct BackwardPass {
  StepGraph graph;
  Costs costs;
  NodeId layer[3], sent[3], update[3];

  BackwardPass() {
    ValueId gradient = graph.add_input(bytes_desc(256));
    std::vector<std::vector<Cost>> list;
    for (int i = 0; i < 3; ++i) {
      layer[i] = graph.node_count();
      gradient = add(graph, {gradient});
      sent[i] = graph.node_count();
      const ValueId sum = add(graph, {gradient});
      update[i] = graph.node_count();
      add(graph, {sum});
      list.insert(list.end(), {{{1, 2}}, {on_link(3)}, {{1, 1}}});
    }
    costs = costs_of(list);
  }
};

class Collective final : public OpWith<Collective> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "collective"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
    outputs.push_back(bytes_output(256));
  }
  Work work(std::span<const ValueDesc>, std::span<const ValueDesc>) const override { return {.bytes = 4000}; }
  Communication communication(std::span<const ValueDesc>, std::span<const ValueDesc>) const override {
    return {{7}, {{.kind = CollectiveCall::Kind::all_gather, .count = 300'000}}};
  }
};

}  // namespace

TEST_CASE("one stream computes while the link carries what it has computed") {
  const BackwardPass pass;
  const Problem problem = make_problem(pass.graph, pass.costs, 1, 1);
  CHECK(problem.links == 1);
  CHECK(serial(problem).makespan == 18);
  CHECK(least_makespan(problem) == 12);  // 2, then the link for 9, then the last update
  const Plan plan = make_plan(problem, critical_path, "critical_path");
  CHECK(plan.makespan == 12);
  CHECK(simulate(problem, plan).makespan == 12);
  CHECK(plan.commands.streams.size() == 2);
  for (int i = 0; i < 3; ++i) {
    CHECK(plan.placements[pass.sent[i]].stream == 1);
    CHECK(plan.placements[pass.sent[i]].start == 2 + 3 * i);
    CHECK(plan.placements[pass.layer[i]].stream == 0);
    CHECK(plan.placements[pass.update[i]].stream == 0);
  }
}

TEST_CASE("the bound knows that a link carries one node at a time") {
  StepGraph graph = independent(4);
  const Costs costs = costs_of({{on_link(3)}, {on_link(4)}, {on_link(5)}, {{1, 1}}});
  const Problem problem = make_problem(graph, costs, 4, 4);
  CHECK(lower_bound(problem).bound == 12);
  CHECK(critical_path(problem).makespan == 12);
}

TEST_CASE("of what is ready for a link, the most important goes first") {
  StepGraph graph;
  add(graph, {});
  const ValueId urgent = add(graph, {});
  add(graph, {urgent});
  const Costs costs = costs_of({{on_link(2)}, {on_link(2)}, {{1, 5}}});
  const Schedule schedule = critical_path(make_problem(graph, costs, 1, 1));
  CHECK(schedule.makespan == 7);
  CHECK(schedule.placements[1].start == 0);
  CHECK(schedule.placements[0].start == 2);
}

TEST_CASE("communication that takes cores shares them, and what takes none is not slowed down") {
  StepGraph graph = independent(3);
  for (const int width : {0, 1}) {
    CAPTURE(width);
    const Costs costs = costs_of({{on_link(10, width)}, {{1, 10}}, {{1, 10}}});
    Problem problem = make_problem(graph, costs, 2, 2);
    problem.oversubscribes = true;
    const Plan plan = make_plan(problem, round_robin, "round_robin");
    CHECK(simulate(problem, plan).makespan == doctest::Approx(width == 0 ? 10 : 15));
    problem.oversubscribes = false;
    CHECK(critical_path(problem).makespan == doctest::Approx(width == 0 ? 10 : 20));
  }
}

TEST_CASE("nodes of one link on two streams are a fault that names both") {
  const BackwardPass pass;
  const Problem problem = make_problem(pass.graph, pass.costs, 1, 1);
  Plan plan = make_plan(problem, critical_path, "critical_path");
  auto &computing = plan.commands.streams[0], &sending = plan.commands.streams[1];
  const auto moved = std::ranges::find(sending, Command{Command::Kind::launch, pass.sent[2]});
  REQUIRE(moved != sending.end());
  computing.push_back(*moved);
  sending.erase(moved);
  plan.placements[pass.sent[2]].stream = 0;
  CHECK(joined(verify_plan(pass.graph, pass.costs, plan))
            .find("node 1 'test' on stream 1 and node 7 'test' on stream 0 both communicate over link 0") !=
        std::string::npos);
}

TEST_CASE("a link's latency and bandwidth are in the cost of a collective, and its units are the width") {
  StepGraph graph;
  graph.add_node(std::make_shared<Collective>(), {});
  DeviceInfo device{.name = "a device", .capacity = 4};
  device.flops_per_unit = device.bytes_per_second = device.bytes_per_second_unit = 1e9;
  device.link = {.latency_seconds = 10e-6, .bytes_per_second = 1e9, .units = 1};
  for (const bool oversubscribes : {false, true}) {
    device.oversubscribes = oversubscribes;
    const Costs costs = analytic_costs(graph, device, std::vector{1, 2, 4});
    REQUIRE(costs.of(0).size() == 1);
    CHECK(costs.of(0)[0].duration == doctest::Approx(4 + 6 * 10 + 6 * 300));
    CHECK(costs.of(0)[0].width == 1);
    CHECK(costs.link(0) == 0);
  }
}

TEST_CASE("costs that contradict what is known of links are errors") {
  StepGraph graph;
  graph.add_node(std::make_shared<Collective>(), {});
  const auto error_of = [&](const std::vector<Cost>& implementations) {
    return braid::testing::error_of<PlanError>(
        [&] { check_problem(make_problem(graph, costs_of({implementations}), 1, 4)); });
  };
  CHECK(error_of({on_link(1)}).empty());
  CHECK(error_of({{1, 1}}) == "[plan] node 0 'collective' communicates, but its cost names no link");
  CHECK(error_of({on_link(1), {1, 1}}) == "[plan] node 0 has implementations on different links");
  CHECK(error_of({{.width = 1, .duration = 1, .link = -2}}) == "[plan] node 0 occupies link -2 of 0");
}

}  // namespace braid::scheduler::testing
