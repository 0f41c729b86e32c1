#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions.h"
#include "autograd/gradient_check.h"
#include "runtime/session.h"
#include "tests/noise.h"

namespace braid {
namespace {

Parameter& random_parameter(Context& context, std::string_view name, const Shape& shape) {
  Parameter& parameter = context.add(name, {DType::f64, shape}, ValueKind::parameter);
  context.write(parameter, noise(shape, context.parameters().size(), DType::f64));
  return parameter;
}

/// A LossFunction that records `forward` as a step.
LossFunction as_loss(Session& session, std::vector<Parameter*> parameters, std::function<Tensor()> forward) {
  return [&session, parameters, forward](std::vector<Array>* gradients) {
    Step step = session.step();
    const Tensor loss = forward();
    if (gradients == nullptr) return loss.item();
    backward(loss);
    for (const Parameter* parameter : parameters) gradient(*parameter).keep();
    step.run();
    for (const Parameter* parameter : parameters) gradients->push_back(gradient(*parameter).array());
    return loss.item();
  };
}

TEST_CASE("a small residual network in float64 passes the gradient check, on one stream and on three") {
  for (const int streams : {1, 3}) {
    Session session({.device = "cpu", .streams = streams, .width = 1});
    Parameter& w1 = random_parameter(session, "w1", {4, 3, 3, 2});
    Parameter& w2 = random_parameter(session, "w2", {4, 3, 3, 4});
    Parameter& scale = random_parameter(session, "scale", {4});
    Parameter& shift = random_parameter(session, "shift", {4});
    Parameter& mean = session.add("mean", {DType::f64, {4}}, ValueKind::state);
    Parameter& variance = session.add("variance", {DType::f64, {4}}, ValueKind::state);
    Parameter& fc = random_parameter(session, "fc", {3, 8});
    Parameter& bias = random_parameter(session, "bias", {3});
    const Array images = noise({4, 6, 5, 2}, 5, DType::f64);
    const Array labels = Array::from<std::int32_t>({0, 2, 1, 2}, {4});
    const std::vector<Parameter*> parameters{&w1, &w2, &scale, &shift, &fc, &bias};
    const auto loss = as_loss(session, parameters, [&] {
      const BatchNormParameters norm{scale, shift, mean, variance};
      const Tensor x = conv2d(images, w1, {.padding = 1});
      const Tensor y =
          batch_norm(conv2d(relu(x), w2, {.padding = 1}), norm, {.activation = Activation::relu, .add = true}, true, x);
      const Tensor pooled = global_avg_pool(max_pool2d(y, {}));
      const Tensor halves[] = {pooled, global_avg_pool(avg_pool2d(x + y, {}))};
      return cross_entropy(linear(concat(halves), fc, bias), labels, 0.1);
    });
    CHECK(check_gradients(session, parameters, loss) == "");
  }
}

TEST_CASE("the gradient check reports a wrong gradient") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = random_parameter(session, "w", {1, 3});
  const std::vector<Parameter*> parameters{&w};
  const auto right = as_loss(session, parameters, [&] {
    const Tensor y = linear(noise({1, 3}, 1, DType::f64), w);
    return reshape(linear(y, Tensor(noise({1, 1}, 2, DType::f64))), {});
  });
  CHECK(check_gradients(session, parameters, right) == "");
  const auto wrong = [&](std::vector<Array>* gradients) {
    const double loss = right(gradients);
    if (gradients != nullptr) (*gradients)[0].as<double>()[1] *= 1.01;
    return loss;
  };
  CHECK(check_gradients(session, parameters, wrong).starts_with("w[1]: gradient is "));
}

TEST_CASE("a value used several times gets the sum of its gradients") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f64, {}}, ValueKind::parameter);
  Step step = session.step();
  const Tensor x = w;
  const Tensor twice = x + x;
  const Tensor terms[] = {twice, x, twice};
  backward(sum(terms));
  CHECK(gradient(w).item() == 5);
}

TEST_CASE("a value joined several times gets the sum of its slices of the gradients") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f64, {1, 2}}, ValueKind::parameter);
  Step step = session.step();
  const Tensor x = w, other = Array::from<double>({7}, {1, 1});
  const Tensor pair = concat(std::vector<Tensor>{x, other, x});
  const Tensor all = concat(std::vector<Tensor>{pair, x});
  const Tensor weights = Array::from<double>({1, 2, 1000, 10, 20, 100, 200}, {1, 7});
  backward(reshape(linear(all, weights), {}) + reshape(linear(x, Tensor(Array::from<double>({4, 5}, {1, 2}))), {}));
  const Array gradient_of_x = gradient(w).array();
  CHECK(gradient_of_x.as<double>()[0] == 115);
  CHECK(gradient_of_x.as<double>()[1] == 227);
}

TEST_CASE("a weighted sum gates its inputs by the sigmoid of their weights") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& weights = session.add("weights", {DType::f64, {2}}, ValueKind::parameter);
  session.write(weights, Array::from<double>({0, std::log(3.0)}, {2}));  // sigmoids 1/2 and 3/4
  Step step = session.step();
  const Tensor inputs[] = {Tensor(Array::scalar(2.0)), Tensor(Array::scalar(-8.0))};
  const Tensor y = weighted_sum(weights, inputs);
  backward(y);
  const Array dweights = gradient(weights).array();
  CHECK(y.item() == doctest::Approx(-5).epsilon(1e-14));
  CHECK(dweights.as<double>()[0] == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(dweights.as<double>()[1] == doctest::Approx(-1.5).epsilon(1e-14));
}

TEST_CASE("backward passes of several losses add up") {
  Session session({.device = "cpu", .streams = 2});
  Parameter& w = session.add("w", {DType::f64, {}}, ValueKind::parameter);
  Step step = session.step();
  backward(Tensor(w) + Tensor(w));
  backward(Tensor(w));
  CHECK(gradient(w).item() == 3);
}

TEST_CASE("frozen parameters, no_grad and unused parameters get no gradient") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f64, {}}, ValueKind::parameter);
  Parameter& frozen = session.add("frozen", {DType::f64, {}}, ValueKind::parameter);
  Parameter& unused = session.add("unused", {DType::f64, {}}, ValueKind::parameter);
  frozen.trainable = false;
  Step step = session.step();
  Tensor hidden;
  {
    const NoGrad no_grad;
    hidden = Tensor(w) + Tensor(w);
    CHECK_FALSE(session.tape().requires_gradient(hidden.id()));
  }
  backward(Tensor(w) + Tensor(frozen) + hidden);
  CHECK(gradient(w).item() == 1);
  CHECK(session.tape().gradient(frozen) == kNoValue);
  CHECK(session.tape().gradient(unused) == kNoValue);
}

TEST_CASE("backward refuses what cannot be differentiated") {
  Session session({.device = "cpu", .streams = 1});
  Parameter& w = session.add("w", {DType::f64, {2}}, ValueKind::parameter);
  Step step = session.step();
  CHECK_THROWS_WITH_AS(backward(w), "[backward] expected a loss of one element, got shape [2]", ShapeError);
  CHECK_THROWS_WITH_AS(backward(Tensor(Array::scalar(1.0))),
                       "[backward] the loss depends on no trainable parameter, or was recorded under no_grad", Error);
  CHECK_THROWS_AS(backward(Tensor()), Error);
}

}  // namespace
}  // namespace braid
