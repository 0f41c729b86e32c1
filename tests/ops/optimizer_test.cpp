// Several steps of every optimizer against its published formula in double.

#include "ops/optimizer/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/ops/interpreter.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr int kSteps = 5;

/// Some gradient that changes its sign.
double gradient_at(int step, double p) { return 0.5 * p + std::cos(2.0 * step); }

/// torch.optim.SGD, and its decoupled variant; m starts at zero.
double sgd_by_formula(const SgdOptions& o, double lr, double p) {
  double m = 0;
  for (int step = 1; step <= kSteps; ++step) {
    double g = gradient_at(step, p);
    if (o.decoupled) {
      p -= lr * o.weight_decay * p;
    } else {
      g += o.weight_decay * p;
    }
    m = o.momentum * m + g;
    p -= lr * (o.nesterov ? g + o.momentum * m : m);
  }
  return p;
}

/// Algorithm 1 of Kingma and Ba (2015), with weight decay as in torch.optim.Adam or, decoupled, as in AdamW.
double adam_by_formula(const AdamOptions& o, double lr, double p) {
  double m = 0, v = 0;
  for (int step = 1; step <= kSteps; ++step) {
    double g = gradient_at(step, p);
    if (o.decoupled) {
      p -= lr * o.weight_decay * p;
    } else {
      g += o.weight_decay * p;
    }
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double corrected_m = m / (1 - std::pow(o.beta1, step)), corrected_v = v / (1 - std::pow(o.beta2, step));
    p -= lr * corrected_m / (std::sqrt(corrected_v) + o.epsilon);
  }
  return p;
}

Array scalar(DType dtype, double value) {
  return dtype == DType::f64 ? Array::scalar(value) : Array::scalar(static_cast<float>(value));
}

double sgd_by_kernel(const SgdOptions& options, double lr, DType dtype, double p) {
  const ops::SgdUpdate op(options);
  std::vector<Array> state = {scalar(dtype, p)};
  if (options.momentum != 0) state.push_back(scalar(dtype, 0));
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<Array> inputs = {Array::scalar(lr), state[0], scalar(dtype, gradient_at(step, element(state[0], 0)))};
    inputs.insert(inputs.end(), state.begin() + 1, state.end());
    state = run_op(op, inputs);
  }
  return element(state[0], 0);
}

double adam_by_kernel(const AdamOptions& options, double lr, DType dtype, double p) {
  const ops::AdamUpdate op(options);
  std::vector<Array> state = {scalar(dtype, p), scalar(dtype, 0), scalar(dtype, 0)};
  for (int step = 1; step <= kSteps; ++step) {
    state = run_op(op, {Array::scalar(lr), Array::scalar<std::int32_t>(step), state[0],
                        scalar(dtype, gradient_at(step, element(state[0], 0))), state[1], state[2]});
  }
  return element(state[0], 0);
}

}  // namespace

TEST_CASE("SGD follows its formula with every option") {
  constexpr double kRate = 0.1;  // not a number of f32
  for (const double momentum : {0.0, 0.9}) {
    for (const double weight_decay : {0.0, 0.125}) {
      for (const bool nesterov : {false, true}) {
        for (const bool decoupled : {false, true}) {
          if (nesterov && momentum == 0) continue;
          const SgdOptions options{momentum, weight_decay, nesterov, decoupled};
          const double expected = sgd_by_formula(options, kRate, 1.5);
          CHECK(sgd_by_kernel(options, kRate, DType::f64, 1.5) == doctest::Approx(expected).epsilon(1e-13));
          CHECK(sgd_by_kernel(options, kRate, DType::f32, 1.5) == doctest::Approx(expected).epsilon(2e-6));
        }
      }
    }
  }
}

TEST_CASE("Adam follows its formula with every option") {
  constexpr double kRate = 0.1;  // not a number of f32
  for (const double weight_decay : {0.0, 0.125}) {
    for (const bool decoupled : {false, true}) {
      const AdamOptions options{.weight_decay = weight_decay, .decoupled = decoupled};
      const double expected = adam_by_formula(options, kRate, 1.5);
      CHECK(adam_by_kernel(options, kRate, DType::f64, 1.5) == doctest::Approx(expected).epsilon(1e-13));
      CHECK(adam_by_kernel(options, kRate, DType::f32, 1.5) == doctest::Approx(expected).epsilon(2e-6));
    }
  }
}
