// Chains of elementwise functions run as one node each.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "autograd/functions.h"
#include "ops/elementwise/expression.h"
#include "ops/rewrites/fuse_elementwise.h"
#include "runtime/session.h"
#include "tests/noise.h"

namespace braid {

namespace {

std::int64_t elementwise_nodes(const StepGraph& graph) {
  return std::ranges::count_if(graph.nodes(), [](const Node& node) { return node.op->name() == "elementwise"; });
}

/// A random expression of tensors of shapes that broadcast to [3,4,5], as many functions deep as there is room for.
Tensor random_expression(Generator& generator, std::vector<Tensor> tensors, bool keep) {
  for (int i = 0; i < 25; ++i) {
    const Tensor &a = tensors[generator.below(static_cast<std::uint32_t>(tensors.size()))],
                 &b = tensors[generator.below(static_cast<std::uint32_t>(tensors.size()))];
    const Tensor y = [&] {
      switch (generator.below(8)) {
        case 0: return a - b;
        case 1: return mul(a, b) * 0.5;
        case 2: return sigmoid(a) + 1.0;
        case 3: return tanh(b);
        case 4: return maximum(a, b);
        case 5: return silu(a) - 0.25;
        case 6: return a / (square(b) + 1.0);
        default: return gelu(a);
      }
    }();
    if (keep) y.keep();
    tensors.push_back(y);
  }
  Tensor sum_of_all = mean(tensors[0]);
  for (std::size_t i = 1; i < tensors.size(); ++i) sum_of_all = sum_of_all + mean(tensors[i]);
  return sum_of_all;
}

}  // namespace

TEST_CASE("a chain is one node, forward and backward") {
  Session session({.device = "cpu", .streams = 1});
  Step step = session.step();
  const Tensor x = Tensor(noise({64})).require_gradient();
  const Tensor y = sigmoid(exp(x * 0.5 - 1.0) / 3.0);
  backward(sum(y));
  const Tensor gradient = braid::gradient(x).keep();
  step.run();
  CHECK(elementwise_nodes(session.tape().graph()) > 4);
  CHECK(elementwise_nodes(step.graph()) <= 3);
  const float at = noise({64}).as<float>()[0];
  const double e = std::exp(0.5 * static_cast<double>(at) - 1) / 3, s = 1 / (1 + std::exp(-e));
  CHECK(static_cast<double>(gradient.array().as<float>()[0]) == doctest::Approx(s * (1 - s) * e * 0.5).epsilon(1e-5));
}

TEST_CASE("fused chains give the bits of single functions") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const DType dtype = seed % 3 == 0 ? DType::f64 : DType::f32;
    std::vector<std::vector<Array>> results;
    std::vector<std::int64_t> nodes;
    for (const bool keep : {true, false}) {
      Session session({.device = "cpu", .streams = 1 + static_cast<int>(seed % 3)});
      Generator generator(seed);
      Step step = session.step();
      const Tensor a = Tensor(noise({3, 4, 5}, 1, dtype)).require_gradient(),
                   b = Tensor(noise({5}, 2, dtype)).require_gradient(),
                   c = Tensor(noise({3, 1, 1}, 3, dtype)).require_gradient();
      const Tensor loss = random_expression(generator, {a, b, c}, keep);
      backward(loss, {a, b, c});
      std::vector<Tensor> kept{loss};
      for (const Tensor& tensor : {a, b, c}) kept.push_back(gradient(tensor).keep());
      step.run();
      nodes.push_back(elementwise_nodes(step.graph()));
      auto& arrays = results.emplace_back();
      for (const Tensor& tensor : kept) arrays.push_back(tensor.array());
    }
    CAPTURE(seed);
    CHECK(nodes[1] <= nodes[0]);
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      CHECK(std::memcmp(results[0][i].data(), results[1][i].data(), results[0][i].bytes()) == 0);
    }
  }
}

TEST_CASE("chains of any depth run, although only a few results fit") {
  Session session({.device = "cpu", .streams = 1});
  for (int factors = 2; factors <= 12; ++factors) {
    CAPTURE(factors);
    Step step = session.step();
    std::vector<Tensor> exponentials;
    for (int i = 0; i < factors; ++i) {
      exponentials.push_back(exp(Array::from<double>({0.125 * i, 0}, {1, 2})));
    }
    Tensor left = exponentials[0], right = exponentials.back();
    for (int i = 1; i < factors; ++i) {
      left = mul(left, exponentials[static_cast<std::size_t>(i)]);
      right = mul(exponentials[static_cast<std::size_t>(factors - 1 - i)], right);
    }
    const double expected = std::exp(0.125 * factors * (factors - 1) / 2);
    const Tensor both = concat({left, right});
    step.run();
    CHECK(both.array().as<double>()[0] == doctest::Approx(expected).epsilon(1e-12));
    CHECK(both.array().as<double>()[2] == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("what is kept, read twice, broadcast, rounded or overwritten in between stays a node of its own") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f32, {4}}, ValueKind::parameter);
  const auto fused_away = [&](const std::function<void()>& record) {
    Step step = session.step();
    record();
    step.run();
    return elementwise_nodes(session.tape().graph()) - elementwise_nodes(step.graph());
  };
  const Array x = noise({4}), column = noise({4, 1});
  CHECK(fused_away([&] { exp(sigmoid(x)); }) == 1);
  CHECK(fused_away([&] { exp(sigmoid(x).keep()); }) == 0);
  CHECK(fused_away([&] {
          const Tensor y = sigmoid(x);
          exp(y);
          tanh(y);
        }) == 0);
  CHECK(fused_away([&] { sigmoid(x) - Tensor(column); }) == 0);
  CHECK(fused_away([&] { exp(sigmoid(cast(x, DType::bf16))); }) == 0);
  CHECK(fused_away([&] {
          const Tensor y = sigmoid(w);
          assign(w, x);
          exp(y);
        }) == 0);
}

TEST_CASE("a value in the middle of a chain cannot be read unless it is kept") {
  Session session({.device = "cpu", .streams = 1});
  Step step = session.step();
  const Tensor middle = sigmoid(noise({4}));
  exp(middle);
  step.run();
  CHECK_THROWS_WITH_AS(middle.array(), doctest::Contains("was not kept: it is in the middle of a chain"), Error);
}

TEST_CASE("a fused step has the properties and orders of the recorded one") {
  StepGraph graph;
  ops::ExpressionBuilder builder;
  const auto negate = std::make_shared<ops::Elementwise>(builder.finish(-builder.input(0)), Shape{4});
  const ValueDesc desc{DType::f32, {4}};
  const ValueId x = graph.add_input(desc, Layout::split),
                w = graph.add_persistent(desc, ValueKind::parameter, 0, {Layout::pieces});
  const ValueId y = graph.add_node(negate, {graph.add_node(negate, {x})});  // nodes 0 and 1
  const ValueId z = graph.add_node(negate, {graph.add_node(negate, {w})});  // nodes 2 and 3
  graph.keep(y);
  graph.recompute(z);
  graph.run_after(2, 1);
  const RewrittenGraph fused = ops::fuse_elementwise(graph);
  CHECK(fused.nodes == std::vector<NodeId>{1, 2, 3});  // one that runs after another stays a node of its own
  CHECK(std::ranges::equal(fused.graph.orders(), std::vector{std::pair(1, 0)}));
  for (const ValueId id : {x, w, y, z}) {
    const Value &before = graph.value(id), &after = fused.graph.value(fused.value(id));
    CHECK(before.desc == after.desc);
    CHECK(before.layouts == after.layouts);
    CHECK(before.kept == after.kept);
    CHECK(before.recomputed == after.recomputed);
  }
}

}  // namespace braid
