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
