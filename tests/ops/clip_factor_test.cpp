#include "ops/optimizer/clip_factor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ops/optimizer/blend.h"
#include "tests/ops/interpreter.h"

using namespace braid;
using namespace braid::testing;

namespace {

struct Clipped {
  double factor, norm;
};

Clipped clip(const ClipOptions& options, const std::vector<Array>& inputs) {
  const std::vector<Array> outputs = run_op(ops::ClipFactor(options), inputs);
  return {outputs[0].as<double>()[0], outputs[1].as<double>()[0]};
}

}  // namespace

TEST_CASE("gradients are scaled down to the largest norm, and left alone below it") {
  const std::vector<Array> gradients{Array::from<float>({3, 0}, {2}), Array::scalar(-4.0f)};  // their norm is 5
  CHECK(clip({.max_norm = 10}, gradients).factor == 1);
  CHECK(clip({.max_norm = 1}, gradients).norm == 5);
  CHECK(clip({.max_norm = 1}, gradients).factor == doctest::Approx(1 / (5 + 1e-6)).epsilon(1e-15));  // as PyTorch
}

TEST_CASE("gradients of several types count by their own") {
  const Array single = Array::from<float>({3, 0}, {2}), twice = Array::from<double>({0, -4}, {2});
  CHECK(clip({.max_norm = 1}, {single, twice}).norm == 5);
  CHECK(clip({.max_norm = 1}, {twice, single}).norm == 5);
}

TEST_CASE("the norm is that of the gradients without the scale of the loss") {
  const std::vector<Array> gradients{Array::scalar(0.125), Array::from<float>({24, 32}, {2})};
  const Clipped clipped = clip({.max_norm = 1, .scaled = true}, gradients);
  CHECK(clipped.norm == 5);
  CHECK(clipped.factor == doctest::Approx(0.125 / (5 + 1e-6)).epsilon(1e-15));
}

TEST_CASE("gradients whose norm is not finite, or that are to be skipped, are skipped") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(clip({.max_norm = 1}, {Array::from<float>({1, bad}, {2})}).factor == 0);
  }
  CHECK(clip({.max_norm = 1, .scaled = true}, {Array::scalar(0.0), Array::scalar(7.0f)}).factor == 0);
}

TEST_CASE("a blend by 0 forgets what was there, whatever it was") {
  const Array nan = Array::from<float>({std::numeric_limits<float>::quiet_NaN(), 2}, {2}),
              x = Array::from<float>({3, 5}, {2});
  const auto blend = [&](double a, double b) {
    return run_op(ops::Blend(), {Array::from<double>({a, b}, {2}), nan, x}, {})[0];
  };
  CHECK(blend(0, 2).as<float>()[0] == 6);
  CHECK(blend(0, 2).as<float>()[1] == 10);
  CHECK(std::isnan(blend(1, 2).as<float>()[0]));
  CHECK(blend(0.5, 2).as<float>()[1] == 11);
}
