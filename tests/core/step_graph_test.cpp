#include "core/graph/step_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "core/graph/graph_copy.h"
#include "tests/test_op.h"

namespace braid {
namespace {

using testing::TestOp;

const ValueDesc kDesc{DType::f32, {4}};
OpPtr plain() { return std::make_shared<TestOp>(std::vector<OutputDesc>{{.shape = {4}}}); }
OpPtr update() { return std::make_shared<TestOp>(std::vector<OutputDesc>{{.shape = {4}, .overwrites = 0}}); }
OpPtr view() { return std::make_shared<TestOp>(std::vector<OutputDesc>{{.shape = {2, 2}, .views = 0}}); }

std::vector<NodeId> list(std::span<const NodeId> nodes) { return {nodes.begin(), nodes.end()}; }

TEST_CASE("a node can be told to run after an earlier one that it does not read") {
  StepGraph graph;
  const ValueId x = graph.add_input(kDesc);
  for (int i = 0; i < 3; ++i) graph.add_node(plain(), {x});
  graph.add_node(view(), {x});
  const Hash before = graph.hash();
  graph.run_after(2, 0);
  CHECK_FALSE(graph.hash() == before);
  CHECK(list(graph.edges().predecessors(2)) == std::vector<NodeId>{0});
  CHECK(list(graph.edges().successors(0)) == std::vector<NodeId>{2});
  for (const auto& [node, earlier] : {std::pair(1, 1), {1, 2}, {3, 0}, {4, 0}, {1, -1}}) {
    CHECK_THROWS_WITH_AS(graph.run_after(node, earlier), doctest::Contains("[step graph] cannot run node"), Error);
  }
  graph.clear();
  for (int i = 0; i < 3; ++i) graph.add_node(plain(), {});
  CHECK(graph.edges().predecessors(2).empty());
}

TEST_CASE("an old version can be neither read nor overwritten, and only persistent values can be overwritten") {
  StepGraph graph;
  const ValueId w = graph.add_persistent(kDesc, ValueKind::parameter, 0);
  const ValueId reshaped = graph.add_node(view(), {w});
  graph.add_node(update(), {w});
  CHECK_THROWS_AS(graph.add_node(update(), {w}), ShapeError);
  CHECK_THROWS_AS(graph.add_node(plain(), {w}), ShapeError);
  CHECK_THROWS_AS(graph.add_node(plain(), {reshaped}), ShapeError);
  CHECK(graph.node_count() == 2);  // a refused node leaves no trace
  CHECK(graph.value_count() == 3);
  const ValueId v = graph.add_persistent(kDesc, ValueKind::parameter, 1);
  const auto twice = std::make_shared<TestOp>(
      std::vector<OutputDesc>{{.shape = {4}, .overwrites = 0}, {.shape = {4}, .overwrites = 1}});
  CHECK_THROWS_AS(graph.add_node(twice, {v, v}), ShapeError);
  CHECK(graph.value_count() == 4);
  const ValueId x = graph.add_input(kDesc);
  CHECK_THROWS_WITH_AS(graph.add_node(update(), {x}),
                       "[test] expected a parameter or state to overwrite, got an input of shape [4]", ShapeError);
}

/// All properties of a value. One that is added does not compile here; varied_graph() must then have it too.
auto properties(const Value& value) {
  const auto& [desc, kind, recomputed, kept, layout, producer, root, previous, reuses, slot] = value;
  return std::tie(desc, kind, recomputed, kept, layout, producer, root, previous, reuses, slot);
}

/// Has every property of values, in some and not in others; or all but one of them.
StepGraph varied_graph(int without = -1) {
  const auto has = [&](int property) { return property != without; };
  StepGraph graph;
  const ValueId x =
      graph.add_input(has(0) ? kDesc : ValueDesc{DType::f64, {4}}, has(1) ? Layout::split : Layout::replicated);
  const ValueId w = graph.add_persistent(kDesc, has(2) ? ValueKind::parameter : ValueKind::state, has(3),
                                         on_all_axes(has(4) ? Layout::pieces : Layout::replicated));
  const std::vector<OutputDesc> outputs{{.shape = {4}, .reuses = has(5) ? 0 : 1}};
  const auto op = std::make_shared<TestOp>(outputs, Work{.flops = has(9) ? 1.0 : 0.0});
  const std::vector<ValueId> inputs = has(10) ? std::vector{x, w} : std::vector{w, x};
  const ValueId y = graph.add_node(op, inputs, has(6) ? ValueKind::gradient : ValueKind::activation);  // node 0
  graph.add_node(has(7) ? view() : plain(), {y});                                                      // node 1
  graph.add_node(has(8) ? update() : plain(), {w, y});                                                 // node 2
  if (has(11)) graph.run_after(2, 0);
  if (has(12)) graph.recompute(y);
  if (has(13)) graph.divide_along(0, {'n'});
  if (has(14)) graph.keep(y);
  return graph;
}
constexpr int kVaried = 15;

TEST_CASE("a copy of a graph has every property of its values") {
  const StepGraph graph = varied_graph();
  std::array<bool, std::tuple_size_v<decltype(properties(graph.value(0)))>> varies{};
  for (const Value& value : graph.values()) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      ((varies[i] |= std::get<i>(properties(value)) != std::get<i>(properties(graph.value(0)))), ...);
    }
    (std::make_index_sequence<varies.size()>());
  }
  REQUIRE(std::ranges::count(varies, false) == 0);

  GraphCopy copy(graph);
  copy.in_order([&](NodeId node) { copy.add_node(node); });
  const RewrittenGraph same = copy.finish();
  CHECK(std::ranges::equal(same.graph.values(), graph.values()));
  CHECK(std::ranges::equal(same.graph.orders(), graph.orders()));
  for (ValueId id = 0; id < graph.value_count(); ++id) CHECK(same.value(id) == id);
  for (NodeId id = 0; id < graph.node_count(); ++id) CHECK(same.recorded_node(id) == id);
}

TEST_CASE("a graph covers no other that differs in one property, and has another hash unless that is a kind") {
  const StepGraph graph = varied_graph();
  CHECK(graph.hash() == varied_graph().hash());
  CHECK(graph.covers(varied_graph()));
  for (int property = 0; property < kVaried; ++property) {
    CAPTURE(property);
    const StepGraph other = varied_graph(property);
    CHECK((other.hash() != graph.hash()) == (property != 2 && property != 6));
    CHECK_FALSE(other.covers(graph));
    CHECK(graph.covers(other) == (property == kVaried - 1));  // a plan that keeps more will do
  }
}

TEST_CASE("a cleared graph starts over") {
  StepGraph graph;
  const Hash empty = graph.hash();
  graph.add_node(plain(), {graph.add_input(kDesc)});
  graph.clear();
  CHECK(graph.hash() == empty);
  CHECK(graph.node_count() == 0);
  CHECK(graph.value_count() == 0);
}

}  // namespace
}  // namespace braid
