#include <doctest/doctest.h>

#include "tests/scheduler/devices.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

LowerBound bound_of(const StepGraph& graph, const Costs& costs, int capacity, int streams = 64) {
  return lower_bound(make_problem(graph, costs, streams, capacity));
}

}  // namespace

TEST_CASE("the analytic model is a roofline with a launch cost and a fork cost") {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  add_work(graph, input, {.flops = 8e3, .bytes = 100});  // bound by arithmetic
  add_work(graph, input, {.flops = 10, .bytes = 1e4});   // bound by memory
  const int widths[] = {1, 2, 4, 8};
  const Costs costs = analytic_costs(graph, four_cores(), widths);
  REQUIRE(costs.node_count() == 2);
  REQUIRE(costs.of(0).size() == 3);  // 8 is wider than the device
  CHECK(costs.of(0, 0).duration == doctest::Approx(1 + 8));
  CHECK(costs.of(0, 1).duration == doctest::Approx(1 + 2 + 4));
  CHECK(costs.of(0, 2).duration == doctest::Approx(1 + 2 + 2));
  CHECK(costs.of(1, 0).duration == doctest::Approx(1 + 10));
  CHECK(costs.of(1, 1).duration == doctest::Approx(1 + 2 + 5));
  CHECK(costs.of(1, 2).duration == doctest::Approx(1 + 2 + 4));  // four cores share 2.5 GB/s
  CHECK(costs.fastest(0) == costs.of(0, 2).duration);
  CHECK(costs.least_work(0) == costs.of(0, 0).duration);
}

TEST_CASE("on a device that oversubscribes its units, a matrix kernel has one width, whatever widths are offered") {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  const auto product = [](double columns) {
    return Work{.flops = 256 * columns, .products = 1, .rows = 64, .columns = columns, .depth = 2};
  };
  add_work(graph, input, product(3 * 64));     // three tiles
  add_work(graph, input, product(1000 * 64));  // many
  add_work(graph, input, {});                  // nothing to do still takes a launch
  const int widths[] = {1, 2};
  DeviceInfo gpu = ten_multiprocessors();
  gpu.bytes_per_second_unit = 1e15;  // operands arrive at once
  const Costs costs = analytic_costs(graph, gpu, widths);
  for (NodeId node = 0; node < 3; ++node) REQUIRE(costs.of(node).size() == 1);
  const double tile = 2 * 64 * 64 * 2 / gpu.flops_per_unit * 1e6;
  CHECK(costs.of(0, 0).width == 3);
  CHECK(costs.of(0, 0).duration == doctest::Approx(1 + tile));
  CHECK(costs.of(1, 0).width == 10);
  CHECK(costs.of(1, 0).duration == doctest::Approx(1 + 100 * tile));
  CHECK(costs.of(2, 0) == Cost{.width = 1, .duration = 1});
}

TEST_CASE("Braid's own kernels are as wide as their share of block slots or of bandwidth, whichever is larger") {
  constexpr double kBlock = 32 << 10;  // bytes of a thread block
  DeviceInfo gpu = ten_multiprocessors();
  const auto cost = [&](double blocks) {
    StepGraph graph;
    add_work(graph, graph.add_input(bytes_desc(8)), {.bytes = blocks * kBlock});
    return analytic_costs(graph, gpu, {}).of(0, 0);
  };
  // Two blocks run on two units, of which each can draw a fifth of the bandwidth: four units' worth.
  CHECK(cost(2).duration == doctest::Approx(1 + kBlock / 1e3));
  CHECK(cost(2).width == 4);
  CHECK(cost(10).width == 10);
  gpu.launch_seconds = 1;  // the memory is idle almost all the time
  CHECK(cost(2).width == 2);
  CHECK(cost(100).width == 10);
  gpu.threads_per_unit = 2048;  // registers are enough for five blocks, which leave their units to others as well
  gpu.shared_bytes_per_unit = 128 << 10;
  CHECK(cost(2).width == 1);
  CHECK(cost(17).width == 4);
  CHECK(cost(50).width == 10);
  CHECK(cost(1000).width == 10);
  gpu.bytes_per_second = gpu.bytes_per_second_unit = 1e6;  // the bytes take long
  gpu.launch_seconds = 1e-6;
  CHECK(cost(2).width == 10);
}

TEST_CASE("the widths of kernels that fill the memory's bandwidth add up to the time that the bytes need") {
  DeviceInfo gpu = ten_multiprocessors();
  gpu.threads_per_unit = 2048;
  gpu.shared_bytes_per_unit = 128 << 10;
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  for (int i = 0; i < 20; ++i) add_work(graph, input, {.bytes = 100e6});
  const Costs costs = analytic_costs(graph, gpu, {});
  const double bound = bound_of(graph, costs, gpu.capacity).bound;
  CHECK(bound == doctest::Approx(20 * 100e6 / gpu.bytes_per_second * 1e6).epsilon(0.01));
}

TEST_CASE("tensor cores take f16 and bf16, tf32 at half the rate if it is allowed, and f32 never") {
  DeviceInfo gpu{.name = "one multiprocessor",
                 .flops_per_unit = 2 * 64 * 64 * 1e6,
                 .bytes_per_second = 1e15,
                 .bytes_per_second_unit = 1e15,
                 .matrix_flops_per_unit = 8 * 2 * 64 * 64 * 1e6,
                 .oversubscribes = true};
  const auto microseconds = [&](DType dtype, bool tf32) {
    StepGraph graph;
    add_work(graph, graph.add_input({dtype, {8}}),
             {.flops = 2 * 64 * 64 * 8, .products = 1, .rows = 64, .columns = 64, .depth = 8});
    return analytic_costs(graph, gpu, {}, tf32).of(0, 0).duration;
  };
  CHECK(microseconds(DType::bf16, false) == doctest::Approx(1));
  CHECK(microseconds(DType::f16, true) == doctest::Approx(1));
  CHECK(microseconds(DType::f32, true) == doctest::Approx(2));
  CHECK(microseconds(DType::f32, false) == doctest::Approx(8));
  CHECK(microseconds(DType::f64, true) == doctest::Approx(8));
  gpu.matrix_f16_only = true;
  CHECK(microseconds(DType::f16, false) == doctest::Approx(1));
  CHECK(microseconds(DType::bf16, false) == doctest::Approx(8));
  CHECK(microseconds(DType::f32, true) == doctest::Approx(8));
  gpu.matrix_flops_per_unit = 0;
  CHECK(microseconds(DType::bf16, true) == doctest::Approx(8));
  CHECK(microseconds(DType::f32, true) == doctest::Approx(8));
}

TEST_CASE("views cost nothing and empty tensors cost a launch") {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(0));
  add_view(graph, input, 0);
  add_work(graph, input, {});
  const int widths[] = {1, 2};
  const Costs costs = analytic_costs(graph, four_cores(), widths);
  REQUIRE(costs.of(0).size() == 1);
  CHECK(costs.of(0, 0) == Cost{.width = 1, .duration = 0});
  CHECK(costs.fastest(1) == doctest::Approx(1));
}

TEST_CASE("a device without rates and a node without implementations are errors") {
  StepGraph graph;
  add_work(graph, graph.add_input(bytes_desc(8)), {});
  const int widths[] = {1}, too_wide[] = {8};
  CHECK_THROWS_AS(analytic_costs(graph, DeviceInfo{}, widths), Error);
  CHECK_THROWS_AS(analytic_costs(graph, four_cores(), too_wide), Error);
}

TEST_CASE("bottom levels are longest paths and the lower bound is depth or work over capacity") {
  const StepGraph graph = diamond();
  Costs costs;
  for (const double duration : {1.0, 5.0, 2.0, 3.0}) {
    const Cost implementations[] = {{.width = 1, .duration = duration}, {.width = 2, .duration = duration * 0.75}};
    costs.add(implementations);
  }
  const Edges edges = graph.edges();
  const std::vector<double> levels = bottom_levels(edges, costs);
  CHECK(levels == std::vector{0.75 * 9, 0.75 * 8, 0.75 * 5, 0.75 * 3});
  CHECK(longest_path(graph, edges, levels) == std::vector<NodeId>{0, 1, 3});
  CHECK(bound_of(graph, costs, 1) == LowerBound{.depth = 6.75, .work = 11, .bound = 11});
  CHECK(bound_of(graph, costs, 2) == LowerBound{.depth = 6.75, .work = 11, .bound = 6.75});
}

TEST_CASE("the lower bound counts what lies between a fork and a join, where two of five nodes share a stream") {
  StepGraph graph;
  const ValueId fork = add(graph, {});
  std::vector<ValueId> branches;
  for (int i = 0; i < 5; ++i) branches.push_back(add(graph, {fork}));
  add(graph, {add(graph, branches)});
  const Costs costs = unit_costs(graph);
  CHECK(bound_of(graph, costs, 8) == LowerBound{.depth = 4, .work = 8, .bound = 4});
  CHECK(bound_of(graph, costs, 8, 4) == LowerBound{.depth = 4, .work = 8, .bound = 5});
  CHECK(bound_of(graph, costs, 2, 4).bound == 1 + 2.5 + 2);  // by their work
}

TEST_CASE("no plan is faster than the fastest durations over the streams") {
  const StepGraph graph = independent(6);
  const Costs costs = unit_costs(graph, 2);
  CHECK(bound_of(graph, costs, 100, 2) == LowerBound{.depth = 2, .work = 12, .bound = 6});
  CHECK(bound_of(graph, costs, 4, 3) == LowerBound{.depth = 2, .work = 12, .bound = 4});
  CHECK(bound_of(graph, costs, 100) == LowerBound{.depth = 2, .work = 12, .bound = 2});
}

TEST_CASE("work counts for less where nodes share an oversubscribed device better than in proportion") {
  const StepGraph graph = independent(6);
  const Costs costs = choices_of(std::vector<Cost>(6, {.width = 2, .duration = 1}));
  Problem problem = make_problem(graph, costs, 3, 2, true);
  const LowerBound alone = lower_bound(problem);
  CHECK(alone == LowerBound{.depth = 1, .work = 12, .bound = 6});
  for (NodeId node = 0; node < 4; ++node) problem.interference.set_kind(node, 0, node / 3);  // 0 0 0 1, two unknown
  problem.interference.set_factor(0, 1, 3);
  problem.interference.set_factor(1, 0, 1);
  CHECK(lower_bound(problem) == alone);
  problem.interference.set_factor(0, 0, 0.5);  // with two others of its kind
  CHECK(lower_bound(problem).bound == (3 * 2 * 0.25 + 3 * 2) / 2);
  problem.interference.set_factor(1, 0, 0.75);
  CHECK(lower_bound(problem).bound == doctest::Approx((3 * 2 * 0.25 + 2 * 0.75 * 0.75 + 2 * 2) / 2));
  CHECK(lower_bound(problem).work == alone.work);
  problem.interference.set_factor(1, 1, 0.1);  // there is no other of that kind
  CHECK(lower_bound(problem).bound == doctest::Approx((3 * 2 * 0.25 + 2 * 0.75 * 0.75 + 2 * 2) / 2));
  problem.streams = 2;
  CHECK(lower_bound(problem).bound == doctest::Approx((3 * 2 * 0.5 + 2 * 0.75 + 2 * 2) / 2));
  problem.links = 1;  // whose stream is a third one
  CHECK(lower_bound(problem).bound == doctest::Approx((3 * 2 * 0.25 + 2 * 0.75 * 0.75 + 2 * 2) / 2));
  problem.oversubscribes = false;  // then nothing gains by sharing
  CHECK(lower_bound(problem) == alone);
}

}  // namespace braid::scheduler::testing
