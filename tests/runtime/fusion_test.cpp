// Chains of elementwise functions run as one node each, and batch norms as part of the convolutions that read them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "autograd/functions.h"
#include "core/device/cpu/avx512.h"
#include "models/layers/layers.h"
#include "ops/elementwise/expression.h"
#include "ops/rewrites/fuse.h"
#include "runtime/compile/planner.h"
#include "runtime/session.h"
#include "tests/noise.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/rounding.h"

namespace braid {

namespace {

/// Whether the compiler fuses multiplications and additions in batch norm's loops, as the convolutions do.
#if defined(__clang__) || !defined(NDEBUG)
constexpr bool kFusesProducts = false;
#else
constexpr bool kFusesProducts = true;
#endif

std::int64_t nodes_of(const StepGraph& graph, std::string_view op) {
  return std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name() == op; });
}
std::int64_t elementwise_nodes(const StepGraph& graph) { return nodes_of(graph, "elementwise"); }

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

/// A step that normalises an image and convolves the result.
struct NormalizedStep {
  std::vector<Array> results;  ///< loss, gradients and running statistics
  std::int64_t fused;          ///< convolutions and gradients that normalise as they read
  std::int64_t batch_norms;    ///< that are left
};

NormalizedStep run_normalized(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& options,
                              Activation activation, int streams, bool keep) {
  Session session({.device = "cpu", .streams = streams});
  BatchNormLayer norm(session, x_shape[3], activation);
  Parameter& w = session.add("w", {DType::f32, w_shape}, ValueKind::parameter);
  session.write(w, noise(w_shape, 2));
  Step step = session.step();
  const Tensor x = Tensor(noise(x_shape, 1)).require_gradient(), y = norm(x);
  if (keep) y.keep();
  const Tensor loss = mean(square(conv2d(y, w, options)));
  backward(loss);
  std::vector<Tensor> kept{loss, gradient(x).keep()};
  for (Parameter* parameter : norm.parameters()) kept.push_back(gradient(*parameter).keep());
  kept.push_back(gradient(w).keep());
  step.run();
  NormalizedStep result{
      {},
      nodes_of(step.graph(), "conv2d_normalized") + nodes_of(step.graph(), "conv2d_normalized_backward_filter"),
      nodes_of(step.graph(), "batch_norm")};
  for (const Tensor& tensor : kept) result.results.push_back(tensor.array());
  for (Parameter* state : norm.states()) result.results.push_back(session.read(*state));
  return result;
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

TEST_CASE("a batch norm that convolutions normalise as they read gives the bits of one that is kept") {
  struct Case {
    Shape x, w;
    Conv2dOptions options;
    bool fuses;  ///< with AVX-512
  };
  const Case cases[] = {{{3, 14, 15, 32}, {48, 3, 3, 32}, {.padding = 1}, true},  // Winograd
                        {{2, 37, 29, 41}, {70, 1, 1, 41}, {}, true},
                        {{2, 40, 52, 67}, {67, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 67}, true},
                        {{2, 5, 4, 3}, {4, 3, 3, 3}, {}, false}};
  for (const Case& each : cases) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
      CAPTURE(each.w);
      CAPTURE(name_of(activation));
      const NormalizedStep kept = run_normalized(each.x, each.w, each.options, activation, 1, true);
      CHECK(kept.fused == 0);
      for (const int streams : {1, 3}) {
        const NormalizedStep step = run_normalized(each.x, each.w, each.options, activation, streams, false);
        CHECK(step.fused == (each.fuses && cpu::has_avx512() ? 2 : 0));
        CHECK(step.batch_norms == (step.fused == 0 ? 1 : 0));
        REQUIRE(step.results.size() == kept.results.size());
        for (std::size_t i = 0; i < kept.results.size(); ++i) {
          CAPTURE(i);
          if (kFusesProducts) {
            CHECK(testing::same_bytes(step.results[i], kept.results[i]));
          } else {
            CHECK(testing::largest_difference(step.results[i], kept.results[i]) <=
                  1e-5 * testing::largest(kept.results[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("a batch norm stays a node if it adds, if something else reads its result, or in f16") {
  Session session({.device = "cpu", .streams = 1});
  BatchNormLayer norm(session, 16, Activation::relu);
  Parameter& w = session.add("w", {DType::f32, {16, 1, 1, 16}}, ValueKind::parameter);
  const Array x = noise({1, 30, 30, 16});
  const auto fused = [&](const std::function<void()>& record) {
    Step step = session.step();
    record();
    step.run();
    return nodes_of(step.graph(), "conv2d_normalized");
  };
  CHECK(fused([&] { conv2d(norm(x), w); }) == (cpu::has_avx512() ? 1 : 0));
  CHECK(fused([&] { conv2d(norm(x, Tensor(x)), w); }) == 0);
  CHECK(fused([&] {
          const Tensor y = norm(x);
          conv2d(y, w);
          max_pool2d(y, {});
        }) == 0);
  CHECK(fused([&] { conv2d(norm(cast(x, DType::f16)), cast(w, DType::f16)); }) == 0);
  CHECK(fused([&] {  // the scale that the batch norm read is gone when the convolution runs
          const Tensor y = norm(x);
          assign(*norm.parameters()[0], noise({16}));
          conv2d(y, w);
        }) == 0);
}

TEST_CASE("batch norms are fused in plans for CPUs with AVX-512, wherever these are made") {
  Session session({.device = "cpu", .streams = 1});
  BatchNormLayer norm(session, 16, Activation::relu);
  Parameter& w = session.add("w", {DType::f32, {16, 1, 1, 16}}, ValueKind::parameter);
  const Step step = session.step();
  conv2d(norm(noise({1, 30, 30, 16})), w);
  for (const bool avx512 : {true, false}) {
    const RewrittenGraph planned = as_planned(session.tape().graph(), {.name = "a CPU", .avx512 = avx512});
    CHECK(nodes_of(planned.graph, "conv2d_normalized") == (avx512 ? 1 : 0));
  }
}

TEST_CASE(
    "a fused batch norm gives the same bits under a memory limit and in a checkpoint, and none is fused if direct") {
  enum class How { plain, limited, checkpointed };
  std::int64_t arena = 0;
  const auto run = [&](How how, const std::string& convolution) {
    Session session({.device = "cpu",
                     .streams = 1,
                     .memory_limit = how == How::limited ? arena * 9 / 10 : 0,
                     .convolution = convolution});
    Chain net(session);
    for (int i = 0; i < 4; ++i) {
      net.then<ConvLayer>(message("conv", i), 32, 32, 3, Conv2dOptions{.padding = 1}, Bias::no, Init::he_fan_in);
      net.then([](const Tensor& y) { return square(y); });  // recomputed under the limit
      net.then<BatchNormLayer>(message("norm", i), 32, Activation::relu);
    }
    net.then<ConvLayer>("last", 32, 32, 3, Conv2dOptions{.padding = 1}, Bias::no, Init::he_fan_in);
    Step step = session.step();
    const Tensor x = noise({4, 20, 20, 32});
    const Tensor y = how == How::checkpointed ? checkpoint([&](const Tensor& in) { return net(in); }, x) : net(x);
    backward(mean(square(y)));
    std::vector<Tensor> gradients;
    for (Parameter* parameter : net.parameters()) gradients.push_back(gradient(*parameter).keep());
    step.run();
    CHECK(nodes_of(step.graph(), "batch_norm") == (cpu::has_avx512() && convolution == "auto" ? 0 : 4));
    if (how == How::plain) arena = step.plan().arena_bytes;
    std::vector<Array> results;
    for (const Tensor& tensor : gradients) results.push_back(tensor.array());
    return results;
  };
  for (const std::string convolution : {"auto", "direct"}) {
    CAPTURE(convolution);
    const std::vector<Array> plain = run(How::plain, convolution);
    for (const How how : {How::limited, How::checkpointed}) {
      const std::vector<Array> other = run(how, convolution);
      for (std::size_t i = 0; i < plain.size(); ++i) CHECK(testing::same_bytes(plain[i], other[i]));
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
