#include "scheduler/costs/what_if.h"

#include <doctest/doctest.h>

#include <cmath>

#include "scheduler/plan.h"
#include "tests/scheduler/devices.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

/// Nodes bound by arithmetic, by memory, and by nothing, and a view.
StepGraph some_work() {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  for (const double tiles : {1000, 3}) {
    const double columns = 64 * tiles;
    add_work(graph, input, {.flops = 2 * 64 * columns * 2, .products = 1, .rows = 64, .columns = columns, .depth = 2});
  }
  add_work(graph, input, {.bytes = 1 << 20});
  add_work(graph, input, {});
  add_view(graph, input, 8);
  return graph;
}

void check_equal(const Costs& costs, const Costs& expected) {
  REQUIRE(costs.node_count() == expected.node_count());
  for (NodeId node = 0; node < costs.node_count(); ++node) {
    CAPTURE(node);
    REQUIRE(costs.of(node).size() == expected.of(node).size());
    for (int i = 0; i < static_cast<int>(costs.of(node).size()); ++i) {
      CHECK(costs.of(node, i).width == expected.of(node, i).width);
      CHECK(costs.of(node, i).duration == doctest::Approx(expected.of(node, i).duration));
    }
  }
}

/// The analytic model's costs on `before`, changed, equal its costs on `after`.
void check_analytic(const DeviceInfo& before, const std::vector<int>& widths, const WhatIf& change,
                    const DeviceInfo& after, const std::vector<int>& new_widths) {
  const StepGraph graph = some_work();
  const Scenario scenario = what_if(graph, analytic_costs(graph, before, widths), before, change);
  check_equal(scenario.costs, analytic_costs(graph, after, new_widths));
  CHECK(scenario.device.capacity == after.capacity);
  CHECK(scenario.device.max_width == after.max_width);
  CHECK(scenario.device.launch_seconds == after.launch_seconds);
  CHECK(scenario.device.fork_seconds == after.fork_seconds);
}

}  // namespace

TEST_CASE("analytic costs change to what the model says of the changed device") {
  const std::vector<int> widths{1, 2, 4};
  check_analytic(four_cores(), widths, {}, four_cores(), widths);

  DeviceInfo after = four_cores();
  after.launch_seconds *= 0.5;
  after.fork_seconds *= 0.5;
  check_analytic(four_cores(), widths, {.launch_scale = 0.5}, after, widths);

  after = four_cores();
  after.capacity = after.max_width = 2;
  check_analytic(four_cores(), widths, {.units = 2}, after, {1, 2});
  after.capacity = after.max_width = 12;
  check_analytic(four_cores(), widths, {.units = 12}, after, {1, 2, 4, 8, 12});

  after.bytes_per_second *= 3;
  check_analytic(four_cores(), widths, {.units = 12, .bandwidth_scale = 3}, after, {1, 2, 4, 8, 12});

  for (const int units : {1, 5, 40, 2000}) {
    after = ten_multiprocessors();
    after.capacity = units;
    after.launch_seconds = 0;
    check_analytic(ten_multiprocessors(), {1}, {.units = units, .launch_scale = 0}, after, {1});
  }
}

TEST_CASE("a core that was the only one gets wider nodes, which pay for the fork") {
  DeviceInfo one = four_cores(), two = four_cores();
  one.capacity = one.max_width = 1;
  two.capacity = two.max_width = 2;
  check_analytic(one, {1}, {.units = 2}, two, {1, 2});
}

TEST_CASE("a width that is fixed stays, as far as the units allow") {
  const StepGraph graph = some_work();
  const Costs fixed = analytic_costs(graph, four_cores(), std::vector{4});
  check_equal(what_if(graph, fixed, four_cores(), {.units = 8}).costs, fixed);
  DeviceInfo three = four_cores();
  three.capacity = three.max_width = 3;
  check_equal(what_if(graph, fixed, four_cores(), {.units = 3}).costs, analytic_costs(graph, three, std::vector{3}));
}

TEST_CASE("measured durations change in the ratio of the model, their launches apart") {
  const StepGraph graph = some_work();
  const DeviceInfo gpu = ten_multiprocessors();
  const Costs model = analytic_costs(graph, gpu, {});
  Costs costs;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    Cost cost = model.of(node, 0);
    if (node == 0) cost.duration = 1 + 100;  // 25 times the arithmetic of the model
    if (node == 0) cost.workspace_bytes = 77;
    if (node == 3) cost.duration = 0.25;  // less than a launch
    costs.add({&cost, 1});
  }
  const Scenario half = what_if(graph, costs, gpu, {.units = 5});
  CHECK(half.costs.of(0, 0).duration == doctest::Approx(1 + 200));
  CHECK(half.costs.of(0, 0).width == 5);
  CHECK(half.costs.of(0, 0).workspace_bytes == 77);
  CHECK(half.costs.of(1, 0).duration == doctest::Approx(model.of(1, 0).duration));  // three tiles fit on five
  CHECK(half.costs.of(3, 0).duration == doctest::Approx(0.25));
  const Scenario slow_launches = what_if(graph, costs, gpu, {.launch_scale = 3});
  CHECK(slow_launches.costs.of(0, 0).duration == doctest::Approx(3 + 100));
  CHECK(slow_launches.costs.of(3, 0).duration == doctest::Approx(0.75));
  CHECK(slow_launches.costs.of(4, 0).duration == 0);  // a view
}

TEST_CASE("changes that make no sense are refused") {
  const StepGraph graph = some_work();
  const Costs costs = unit_costs(graph);
  CHECK_THROWS_WITH_AS(what_if(graph, costs, four_cores(), {.units = -1}),
                       "[what if] expected 1 to 1048576 units, got -1", Error);
  CHECK_THROWS_AS(what_if(graph, costs, four_cores(), {.launch_scale = -1}), Error);
  CHECK_THROWS_AS(what_if(graph, costs, four_cores(), {.launch_scale = std::nan("")}), Error);
  CHECK_THROWS_AS(what_if(graph, costs, four_cores(), {.bandwidth_scale = 0}), Error);
  CHECK_THROWS_AS(what_if(graph, Costs(), four_cores(), {}), Error);
}

}  // namespace braid::scheduler::testing
