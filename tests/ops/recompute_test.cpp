#include "scheduler/memory/recompute.h"

#include <doctest/doctest.h>

#include "ops/elementwise/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/reshape.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "tests/effort.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"

using namespace braid;
using namespace braid::scheduler;
using namespace braid::testing;

namespace {

template <class T, class... Arguments>
OpPtr op(const Arguments&... arguments) {
  return std::make_shared<T>(arguments...);
}

Array ramp(const Shape& shape, float first = -1) {
  Array array(DType::f32, shape);
  for (float& v : array.as<float>()) v = first += 0.375f;
  return array;
}

/// Forward: linear → batch norm with ReLU → dropout → flatten → linear. Backward: what reads them. The statistics of
/// the batch norm are overwritten on the way.
struct Net {
  Interpreter steps;
  ValueId x = steps.add(ramp({6, 4}));
  ValueId w = steps.add(ramp({5, 4}, -3), true);
  ValueId gamma = steps.add(ramp({5}, 1), true), beta = steps.add(ramp({5}), true);
  ValueId mean = steps.add(ramp({5}), true), variance = steps.add(ramp({5}, 1), true);
  ValueId number = steps.add(Array::scalar<std::int32_t>(3));
  ValueId z = node(op<ops::Linear>(), {x, w});
  ValueId y =
      node(op<ops::BatchNorm>(BatchNormOptions{.activation = Activation::relu}), {z, gamma, beta, mean, variance});
  ValueId dropped = node(op<ops::Dropout>(0.5, 7u, 0u), {y, number});
  ValueId flat = node(op<ops::Reshape>(Shape{6, 5, 1}), {dropped});
  ValueId logits = node(op<ops::Scale>(2.0), {flat});
  ValueId dy = gradient(op<ops::Scale>(0.5), {logits});
  ValueId dx = gradient(op<ops::Sum>(), {dy, flat});  // reads dropped through a view
  ValueId late = gradient(op<ops::ReluBackward>(), {dy, logits});
  ValueId last = gradient(op<ops::Sum>(), {y, dropped});

  ValueId node(OpPtr op, std::initializer_list<ValueId> inputs) { return steps.graph().add_node(op, inputs); }
  ValueId gradient(OpPtr op, std::initializer_list<ValueId> inputs) {
    return steps.graph().add_node(op, inputs, ValueKind::gradient);
  }
};

std::vector<std::string_view> names(const StepGraph& graph) {
  std::vector<std::string_view> list;
  for (const Node& node : graph.nodes()) list.push_back(node.op->name());
  return list;
}

bool is_repeated(const RewrittenGraph& result, NodeId node) {
  return result.first_nodes()[static_cast<std::size_t>(result.recorded_node(node))] != node;
}

/// The recorded value as it is computed again, or kNoValue.
ValueId repeated_value(const StepGraph& recorded, const RewrittenGraph& result, ValueId id) {
  const NodeId producer = recorded.value(id).producer;
  for (NodeId node = 0; node < result.graph.node_count(); ++node) {
    if (!is_repeated(result, node) || result.recorded_node(node) != producer) continue;
    const int output = id - recorded.output(producer, 0);
    if (output < result.graph.node(node).output_count) return result.graph.output(node, output);
  }
  return kNoValue;
}

}  // namespace

TEST_CASE("batch norm is applied again with the same bits" * doctest::skip(kThreadsOnly)) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const OpRow& row : op_table()) {
      const auto* norm = dynamic_cast<const ops::BatchNorm*>(row.op.get());
      if (norm == nullptr) continue;
      for (const int width : {1, 2}) {
        CAPTURE(describe(row));
        CAPTURE(dtype);
        std::vector<Array> inputs = make_inputs(row, dtype);
        const std::vector<Array> outputs = run_op(*norm, inputs, {.width = width});
        inputs[3] = outputs[1];
        inputs[4] = outputs[2];
        const ops::BatchNormApply again(norm->attributes());
        CHECK(same_bytes(run_op(again, inputs, {.width = width})[0], outputs[0]));
      }
    }
  }
}

TEST_CASE("values are computed again just before the backward node that reads them first") {
  Net net;
  const StepGraph& graph = net.steps.graph();
  const RewrittenGraph result = recompute(graph, std::vector{net.y, net.dropped});
  CHECK(names(result.graph) == std::vector<std::string_view>{"linear", "batch_norm", "dropout", "reshape", "scale",
                                                             "scale", "batch_norm_apply", "dropout", "reshape", "sum",
                                                             "relu_backward", "sum"});
  for (NodeId id = 0; id < result.graph.node_count(); ++id) {
    CHECK(is_repeated(result, id) == (id >= 6 && id < 9));
    CHECK(graph.node(result.recorded_node(id)).is_view == result.graph.node(id).is_view);
  }
  const auto value = [&](ValueId id) { return result.value(id); };
  const auto copy = [&](ValueId id) { return repeated_value(graph, result, id); };
  // Forward readers keep the first computation; backward readers, views and repeated nodes read the second.
  CHECK(result.graph.inputs(2)[0] == value(net.y));
  CHECK(result.graph.inputs(7)[0] == copy(net.y));
  CHECK(result.graph.inputs(8)[0] == copy(net.dropped));
  CHECK(result.graph.inputs(9)[1] == copy(net.flat));
  CHECK(result.graph.inputs(11)[0] == copy(net.y));
  CHECK(copy(net.logits) == kNoValue);
  // A recomputed node waits for the gradient that its reader waits for.
  const Edges edges = result.graph.edges();
  for (const NodeId again : {6, 7}) {
    CAPTURE(again);
    const auto before = edges.predecessors(again);
    CHECK(std::find(before.begin(), before.end(), 5) != before.end());
  }
}

TEST_CASE("a graph with values computed again gives the same bits and overwrites state once") {
  Net plain, again;
  plain.steps.run();
  const StepGraph before = again.steps.graph();
  const RewrittenGraph result = recompute(before, std::vector{again.y, again.dropped});
  again.steps.graph() = result.graph;
  again.steps.run();
  for (ValueId id = 0; id < before.value_count(); ++id) {
    CAPTURE(id);
    CHECK(same_bytes(again.steps.read(result.value(id)), plain.steps.read(id)));
    const ValueId copy = repeated_value(before, result, id);
    if (copy != kNoValue) CHECK(same_bytes(again.steps.read(copy), plain.steps.read(id)));
  }
}

TEST_CASE("only activations that are cheap to compute and not kept can be recomputed") {
  Net net;
  net.steps.graph().keep(net.dropped);
  const StepGraph& graph = net.steps.graph();
  CHECK(can_recompute(graph, net.y));
  CHECK(can_recompute(graph, net.logits));
  CHECK(can_recompute(graph, net.z));  // but a convolution costs too much, unless it is asked for
  CHECK_FALSE(is_cheap_to_recompute(graph, net.z));
  for (const ValueId id : {net.x, net.w, net.y + 1, net.y + 3, net.dropped, net.flat, net.dy}) {
    CAPTURE(id);
    CHECK_FALSE(can_recompute(graph, id));
    CHECK_THROWS_WITH_AS(recompute(graph, std::vector{id}), doctest::Contains("cannot be recomputed"), Error);
  }
}

TEST_CASE("a graph in which nothing is recomputed is the recorded one") {
  Net net;
  net.steps.graph().keep(net.last);
  const RewrittenGraph result = recompute(net.steps.graph(), {});
  CHECK(result.graph.hash() == net.steps.graph().hash());
  CHECK(result.first_nodes() == result.nodes);
}

TEST_CASE("recomputation from an overwritten parameter is refused") {
  Interpreter steps;
  StepGraph& graph = steps.graph();
  const ValueId x = steps.add(ramp({3})), w = steps.add(ramp({}), true);
  const ValueId y = graph.add_node(op<ops::ScaleBy>(), {x, w});
  struct Update final : OpWith<Update> {
    std::string_view name() const override { return "update"; }
    void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
      outputs.push_back({.shape = {}, .overwrites = 0});
    }
  };
  graph.add_node(op<Update>(), {w});
  graph.add_node(op<ops::Relu>(), {y}, ValueKind::gradient);
  CHECK_THROWS_WITH_AS(recompute(graph, std::vector{y}), doctest::Contains("was overwritten earlier"), ShapeError);
}
