#include "runtime/compile/kernel_timer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "ops/conv/conv2d.h"
#include "ops/elementwise/elementwise.h"
#include "ops/loss/cross_entropy.h"
#include "ops/optimizer/optimizer.h"
#include "runtime/compile/scratch.h"
#include "tests/test_program.h"

namespace braid {
namespace {

/// Two equal convolutions and an update that overwrites its inputs.
StepGraph small_graph() {
  StepGraph graph;
  const ValueId x = graph.add_input({DType::f32, {2, 8, 8, 4}}), w = graph.add_input({DType::f32, {4, 3, 3, 4}});
  const auto conv = std::make_shared<ops::Conv2d>(Conv2dOptions{.padding = 1});
  graph.add_node(conv, {graph.add_node(conv, {x, w}), w});
  const ValueDesc weights{DType::f32, {1000}};
  const ValueId rate = graph.add_input({DType::f64, {}});
  const ValueId p = graph.add_persistent(weights, ValueKind::parameter, 0);
  graph.add_node(std::make_shared<ops::SgdUpdate>(SgdOptions{}), {rate, p, graph.add_input(weights)});
  return graph;
}

/// Implementations of all nodes with these widths, at first with a duration that no kernel has.
scheduler::Costs estimates(const StepGraph& graph, std::initializer_list<int> widths) {
  scheduler::Costs costs;
  std::vector<scheduler::Cost> implementations;
  for (const int width : widths) implementations.push_back({.width = width, .duration = 1e9});
  for (NodeId node = 0; node < graph.node_count(); ++node) costs.add(implementations);
  return costs;
}

/// Has what is not known timed.
void time_with(KernelTimer& timer, const Backend& backend, const StepGraph& graph, scheduler::Costs& costs) {
  const NodeKernels kernels = make_kernels(graph, {.device = {}, .info = backend.info()}, costs);
  timer.time(graph, kernels, costs, false);
}

TEST_CASE("each implementation of a node is timed once, and nodes with a single one are not timed") {
  const auto backend = make_backend({}, 2);
  const auto streams = backend->make_streams({});
  const StepGraph graph = small_graph();
  KernelTimer timer(*backend, *streams);

  scheduler::Costs costs = estimates(graph, {1, 2});
  time_with(timer, *backend, graph, costs);
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    for (const scheduler::Cost& cost : costs.of(node)) {
      CHECK(cost.duration > 0);
      CHECK(cost.duration < 1e9);
    }
  }
  for (const int i : {0, 1}) CHECK(costs.of(0, i).duration == costs.of(1, i).duration);

  scheduler::Costs again = estimates(graph, {1, 2});
  time_with(timer, *backend, graph, again);
  for (NodeId node = 0; node < graph.node_count(); ++node) CHECK(again.of(node, 1) == costs.of(node, 1));

  scheduler::Costs single = estimates(graph, {1});
  time_with(timer, *backend, graph, single);
  CHECK(single.of(0, 0).duration == 1e9);
}

TEST_CASE("what a timer that shares has timed, another one on as many cores does not time again") {
  const StepGraph graph = small_graph();
  const auto timings = [&](int threads, bool share) {
    const auto backend = make_backend({}, threads);
    const auto streams = backend->make_streams({});
    scheduler::Costs costs = estimates(graph, {1, 2});
    KernelTimer timer(*backend, *streams, nullptr, share);
    time_with(timer, *backend, graph, costs);
    std::vector<double> list;
    for (const auto& [implementation, timing] : timer.timings()) list.push_back(timing.microseconds);
    return list;
  };
  const std::vector<double> first = timings(2, true);
  CHECK(timings(2, true) == first);
  CHECK(timings(2, false) != first);
  if (make_backend({}, 2)->info().capacity > 1) CHECK(timings(1, true) != first);  // else they have as many cores
}

TEST_CASE("an implementation that a profile knows is not timed again") {
  const auto backend = make_backend({}, 2);
  const auto streams = backend->make_streams({});
  const StepGraph graph = small_graph();
  scheduler::Costs costs = estimates(graph, {1, 2});
  const NodeKernels kernels = make_kernels(graph, {.device = {}, .info = backend->info()}, costs);
  const scheduler::NodeImplementation known{scheduler::node_signature(graph, 0), 2, costs.of(0, 1).algorithm};
  scheduler::Profile profile;
  profile.measurements = {{known, 123456, 5}};
  KernelTimer timer(*backend, *streams, &profile);
  timer.time(graph, kernels, costs, false);
  CHECK(costs.of(0, 1).duration == 123456);
  CHECK(costs.of(0, 0).duration != 123456);
  CHECK(timer.timings().at(known).samples == 5);
}

TEST_CASE("kernels are timed on random numbers, and on zeros where these stand for something") {
  struct Looks final : Kernel {
    void bind(std::span<void* const> inputs, std::span<void* const>, void*) override {
      given.assign(inputs.begin(), inputs.end());
    }
    void launch(const LaunchContext&) override {}
    std::vector<void*> given;
  } kernel;
  constexpr std::int64_t kRows = 1 << 17;  // more than the tile that repeats
  StepGraph graph;
  const ValueId wide = graph.add_input({DType::f32, {kRows, 3}}), labels = graph.add_input({DType::i32, {kRows}});
  graph.add_node(std::make_shared<ops::CrossEntropy>(0.0), {wide, labels});
  const auto backend = make_backend({}, 1);
  Buffer memory;
  const Scratch scratch(graph, 0, 0);
  clear_scratch(*backend, memory, scratch.bytes());
  scratch.fill(*backend, memory.data());
  scratch.bind(kernel, memory.data());
  double sum = 0, squares = 0;
  for (const float value : std::span(static_cast<const float*>(kernel.given[0]), 3 * kRows)) {
    CHECK_UNARY(std::abs(value) >= 0.5 && std::abs(value) < 1);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  CHECK(std::abs(sum) < 0.01 * 3 * kRows);  // its deviation is 0.0012
  CHECK(squares == doctest::Approx(7.0 / 12 * 3 * kRows).epsilon(0.01));
  for (const std::int32_t label : std::span(static_cast<const std::int32_t*>(kernel.given[1]), kRows))
    CHECK(label == 0);
  const auto given = [&](DType dtype) {
    StepGraph other;
    other.add_node(std::make_shared<ops::Sum>(), {other.add_input({dtype, {8}})});
    const Scratch eight(other, 0, 0);
    eight.fill(*backend, memory.data());
    eight.bind(kernel, memory.data());
    return kernel.given[0];
  };
  for (const double value : std::span(static_cast<const double*>(given(DType::f64)), 8)) {
    CHECK_UNARY(std::abs(value) >= 0.5 && std::abs(value) < 1);
  }
  for (const std::uint16_t bits : std::span(static_cast<const std::uint16_t*>(given(DType::f16)), 8)) {
    CHECK((bits & 0x7C00) == 0x3800);  // the exponent of 1/2
  }
  for (const std::uint16_t bits : std::span(static_cast<const std::uint16_t*>(given(DType::bf16)), 8)) {
    CHECK((bits & 0x7F80) == 0x3F00);
  }
}

TEST_CASE("a kernel that takes more than enough is timed once") {
  testing::TestKernel kernel([] { std::this_thread::sleep_for(std::chrono::microseconds(10)); });
  const auto streams = make_backend({}, 1)->make_streams({});
  CHECK(streams->time(kernel).samples == 3);
  CHECK(streams->time(kernel, 5).samples == 1);
}

}  // namespace
}  // namespace braid
