// Gradients of functions of gradients, against difference quotients in f64.

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "autograd/functions.h"
#include "autograd/gradient_check.h"
#include "runtime/session.h"
#include "tests/noise.h"

using namespace braid;

namespace {

/// Weights, and after them states.
struct Weights {
  std::vector<Parameter*> parameters;
  Tensor operator[](std::size_t i) const { return *parameters[i]; }
};
using Net = std::function<Tensor(const Tensor& x, const Weights& w)>;

/// Checks the gradients of the loss Σ |dy/dx|² + Σ y·c, y = net(x, weights), with respect to x and the weights.
std::string second_order(const Shape& x_shape, const std::vector<Shape>& shapes, const Net& net,
                         const std::vector<Shape>& states = {}) {
  Session session({.device = "cpu", .streams = 1});
  std::vector<Parameter*> parameters;
  Weights weights;
  const auto add = [&](const Shape& shape, ValueKind kind, const Array& value) -> Parameter* {
    Parameter& added = session.add(message("p", session.parameters().size()), {DType::f64, shape}, kind);
    session.write(added, value);
    return &added;
  };
  parameters.push_back(add(x_shape, ValueKind::parameter, noise(x_shape, 1, DType::f64)));
  for (const Shape& shape : shapes) {
    parameters.push_back(add(shape, ValueKind::parameter, noise(shape, parameters.size() + 1, DType::f64)));
    weights.parameters.push_back(parameters.back());
  }
  for (const Shape& shape : states) {
    Array positive = noise(shape, 77, DType::f64);
    for (double& element : positive.as<double>()) element = 0.5 + std::abs(element);
    weights.parameters.push_back(add(shape, ValueKind::state, positive));
  }
  return check_gradients(session, parameters, [&](std::vector<Array>* gradients) {
    Step step = session.step();
    const Tensor x = 1.0 * Tensor(*parameters[0]);  // an activation, which collects no gradient from pass to pass
    const Tensor y = net(x, weights), value = sum(y * noise(y.shape(), 99, DType::f64));
    backward(value, {x});
    const Tensor loss = sum(square(gradient(x))) + value;
    backward(loss, parameters);
    std::vector<Tensor> kept;
    for (const Parameter* parameter : parameters) kept.push_back(gradient(*parameter).keep());
    loss.keep();
    step.run();
    if (gradients != nullptr) {
      gradients->clear();
      for (const Tensor& gradient : kept) gradients->push_back(gradient.array());
    }
    return loss.item();
  });
}

const Shape kImages{2, 5, 4, 4};

/// Smooth, so that linear functions have gradients that depend on x.
Tensor curved(const Tensor& x) { return x * sigmoid(x); }

}  // namespace

TEST_CASE("gradients of gradients of convolutions and matrix products agree with difference quotients") {
  CHECK(second_order(kImages, {{6, 3, 3, 4}, {6}}, [](const Tensor& x, const Weights& w) {
          return tanh(conv2d(x, w[0], w[1], {.stride = 2, .padding = 1}));
        }) == "");
  CHECK(second_order(kImages, {{6, 2, 3, 2}, {4, 3, 3, 6}}, [](const Tensor& x, const Weights& w) {
          return conv2d(relu(conv2d(curved(x), w[0], {.groups = 2})), w[1], {.padding = 1});
        }) == "");
  CHECK(second_order(kImages, {{4, 3, 3, 3}, {3}}, [](const Tensor& x, const Weights& w) {
          return tanh(conv_transpose2d(x, w[0], w[1], {.stride = 2, .padding = 1, .output_padding = 1}));
        }) == "");
  CHECK(second_order({3, 5}, {{4, 5}, {4}, {2, 4}}, [](const Tensor& x, const Weights& w) {
          return linear(leaky_relu(linear(curved(x), w[0], w[1]), 0.2), w[2]);
        }) == "");
  CHECK(second_order({2, 3, 5}, {{2, 5, 4}, {4, 3}},
                     [](const Tensor& x, const Weights& w) { return matmul(tanh(matmul(x, w[0])), w[1]); }) == "");
}

TEST_CASE("gradients of gradients of normalisations agree with difference quotients") {
  for (const Activation activation : {Activation::none, Activation::relu}) {
    for (const bool add : {false, true}) {
      for (const bool training : {false, true}) {
        CAPTURE(static_cast<int>(activation));
        CAPTURE(add);
        CAPTURE(training);
        const BatchNormOptions options{.momentum = 0, .activation = activation, .add = add};
        const auto net = [&](const Tensor& x, const Weights& w) {
          const std::vector<Parameter*>& p = w.parameters;
          return batch_norm(curved(x), {*p[0], *p[1], *p[2], *p[3]}, options, training, add ? sigmoid(x) : Tensor());
        };
        CHECK(second_order({3, 2, 2, 3}, {{3}, {3}}, net, {{3}, {3}}) == "");
      }
    }
  }
  CHECK(second_order({2, 3, 2, 6}, {{6}, {6}},
                     [](const Tensor& x, const Weights& w) { return sigmoid(group_norm(x, 3, w[0], w[1])); }) == "");
  CHECK(second_order({4, 5}, {{5}, {5}},
                     [](const Tensor& x, const Weights& w) { return sigmoid(layer_norm(x, w[0], w[1])); }) == "");
}

TEST_CASE("gradients of gradients of pools, copies and functions agree with difference quotients") {
  const std::pair<const char*, Tensor (*)(const Tensor&)> functions[] = {
      {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(curved(x), {.window = 2, .stride = 1, .padding = 1}); }},
      {"adaptive_avg_pool2d",
       [](const Tensor& x) {
         return adaptive_avg_pool2d(curved(x), {2, 3});
       }},
      {"global_avg_pool", [](const Tensor& x) { return square(global_avg_pool(curved(x))); }},
      {"nearest", [](const Tensor& x) { return interpolate(curved(x), {.scale = 2}); }},
      {"bilinear",
       [](const Tensor& x) { return interpolate(curved(x), {.size = 7, .mode = Interpolation::bilinear}); }},
      {"concat",
       [](const Tensor& x) {
         return square(concat({tanh(x), x * x})) * concat({x, x});
       }},
      {"split",
       [](const Tensor& x) {
         const std::vector<Tensor> parts = split(curved(x), {1, 3});
         return sum({parts[0] * slice(parts[1], -1, 0, 1), square(parts[0])});
       }},
      {"pad",
       [](const Tensor& x) {
         return square(pad(permute(x, {0, 2, 1, 3}), {{0, 0}, {1, 0}, {-1, 2}, {0, 0}}));
       }},
      {"relu6", [](const Tensor& x) { return relu6(3 * curved(x)); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"elu", [](const Tensor& x) { return elu(x, 0.7); }},
      {"hardswish", [](const Tensor& x) { return hardswish(x); }},
      {"norm", [](const Tensor& x) { return norm(x, 2, {1, 2}) * norm(curved(x), 3, {1, 2}); }},
      {"logsumexp and var", [](const Tensor& x) { return logsumexp(x, {1, 2}) * var(x, {1, 2}); }},
      {"where", [](const Tensor& x) { return where(gt(x, 0.5), x * x * x, 2 * x) * x; }},
      {"index_select",
       [](const Tensor& x) {
         return square(index_select(curved(x), 2, Array::from<std::int32_t>({2, 0, 2}, {3})));
       }},
      {"topk", [](const Tensor& x) { return square(topk(x, 2, 1).values) * topk(x, 2, 1, false).values; }},
      {"reflect",
       [](const Tensor& x) {
         return square(pad(x, {{}, {1, 2}, {2, 0}, {}}, PadMode::reflect));
       }},
      {"bicubic", [](const Tensor& x) { return square(interpolate(x, {.size = 7, .mode = Interpolation::bicubic})); }},
      {"cross entropy of weighted classes",
       [](const Tensor& x) {
         const Array labels(DType::i32, {2, 5, 4});
         return cross_entropy(x * x, labels, {.label_smoothing = 0.1, .weight = noise({4}, 3, DType::f64)});
       }},
      {"exp and log", [](const Tensor& x) { return log(exp(x) + 1.0) / (square(x) + 1.0); }},
      {"sqrt and pow", [](const Tensor& x) { return sqrt(square(x) + 1.0) * pow(square(x) + 1.0, -1.5); }},
      {"clamp", [](const Tensor& x) { return square(clamp(x, -1, 1)) + abs(x) * x; }},
      {"maximum", [](const Tensor& x) { return maximum(square(x), 2 * x) * minimum(x, tanh(x)); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x) * x; }},
      {"mean and amax",
       [](const Tensor& x) {
         return mean(square(x), {1, 2}) * amax(x * x, {1, 2});
       }},
      {"cross entropy",
       [](const Tensor& x) {
         Array labels(DType::i32, {2, 5, 4});
         for (std::int32_t& label : labels.as<std::int32_t>()) label = 1;
         return cross_entropy(x * x, labels, 0.1) * cross_entropy(x, labels);
       }},
      {"binary cross entropy", [](const Tensor& x) {
         return binary_cross_entropy_with_logits(x, noise(x.shape(), 5, DType::f64), LossReduction::none);
       }}};
  for (const auto& [name, function] : functions) {
    CAPTURE(std::string(name));
    CHECK(second_order(kImages, {}, [&, f = function](const Tensor& x, const Weights&) { return f(x); }) == "");
  }
}

TEST_CASE("a gradient through what has none is an error that names it, and not zero") {
  const auto penalty = [](const Tensor& y, const Tensor& x) {
    backward(sum(y), {x});
    backward(sum(square(gradient(x))), {x});
  };
  Session session({.device = "cpu", .streams = 1});
  Parameter& p = session.add("p", {DType::f64, {1, 4, 4, 2}}, ValueKind::parameter);
  Step step = session.step();
  const Tensor x = 1.0 * Tensor(p);
  CHECK_THROWS_WITH_AS(penalty(square(max_pool2d(square(x), {.window = 2})), x),
                       doctest::Contains("[max_pool2d_backward] has no gradient"), Error);
  Parameter& q = session.add("q", {DType::f64, {2}}, ValueKind::parameter);
  CHECK_THROWS_WITH_AS(penalty(square(weighted_sum(q, {square(x), x})), x),
                       doctest::Contains("[weighted_sum_backward] has no gradient"), Error);
}
