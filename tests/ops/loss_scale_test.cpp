// Loss scaling, op by op: how the scale evolves, and that a skipped update changes nothing.

#include "ops/optimizer/loss_scale.h"

#include <doctest/doctest.h>

#include <limits>

#include "ops/optimizer/optimizer.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// What the next step multiplies the loss by, what this one multiplies gradients by, and the counts.
struct Scaling {
  float scale;
  std::int32_t good_steps = 0, updates = 0;
  double factor = -1;
  friend bool operator==(const Scaling&, const Scaling&) = default;
};

Scaling after(const Scaling& before, const std::vector<Array>& gradients, const LossScaleOptions& options = {}) {
  std::vector<Array> inputs = {Array::scalar(before.scale), Array::scalar(before.good_steps),
                               Array::scalar(before.updates)};
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  const std::vector<Array> outputs = run_op(ops::LossScaleUpdate(options), inputs, {.width = 2});
  return {outputs[0].as<float>()[0], outputs[1].as<std::int32_t>()[0], outputs[2].as<std::int32_t>()[0],
          outputs[3].as<double>()[0]};
}

/// Gradients of which one element, far from both ends, is as given.
std::vector<Array> gradients(float element) {
  Array large(DType::f32, {100000});
  large.as<float>()[54321] = element;
  return {Array::from<float>({1, -2}, {2}), large, Array::scalar(3.0f)};
}

}  // namespace

TEST_CASE("a gradient that is not finite halves the loss scale and skips the updates") {
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    CHECK(after({1024, 7, 9}, gradients(bad)) == Scaling{512, 0, 9, 0});
  }
  const float largest = std::numeric_limits<float>::max();
  CHECK(after({1024, 7, 9}, gradients(-largest)) == Scaling{1024, 8, 10, 1.0f / 1024});
}

TEST_CASE("gradients of several types are all looked at") {
  const auto with = [](double last) {
    return std::vector{Array::from<float>({1, -2}, {2}), Array::from<double>({1e300, last}, {2})};
  };
  CHECK(after({1024, 7, 9}, with(1)) == Scaling{1024, 8, 10, 1.0f / 1024});
  CHECK(after({1024, 7, 9}, with(kNaN)) == Scaling{512, 0, 9, 0});
}

TEST_CASE("the loss scale doubles after its interval of good steps, for the next step") {
  CHECK(after({64, 1998, 5}, gradients(1)) == Scaling{64, 1999, 6, 1.0f / 64});
  CHECK(after({64, 1999, 5}, gradients(1)) == Scaling{128, 0, 6, 1.0f / 64});
  CHECK(after({64, 2, 5}, gradients(1), {.growth = 4, .growth_interval = 3}) == Scaling{256, 0, 6, 1.0f / 64});
  CHECK(after({64, 2, 5}, gradients(kNaN), {.backoff = 0.25}) == Scaling{16, 0, 5, 0});
}

TEST_CASE("a loss scale and its inverse stay normal numbers") {
  CHECK(after({0x1p-126}, gradients(kNaN)) == Scaling{0x1p-126f, 0, 0, 0});
  CHECK(after({0x1p126f, 1999}, gradients(1)) == Scaling{0x1p126f, 0, 1, 0x1p-126});
}

TEST_CASE("an update by a factor of 0 keeps every bit, whatever the gradient is") {
  const Array factor = Array::scalar(0.0), rate = Array::scalar(0.5), step = Array::scalar<std::int32_t>(0);
  const Array p = Array::from<float>({1.5f, -0.0f, kNaN}, {3}), m = Array::from<float>({-0.0f, 2, 3}, {3});
  const Array v = Array::from<float>({1, 2, 0}, {3}), bad = Array::from<float>({kInfinity, 1, kNaN}, {3});
  const auto unchanged = [](const std::vector<Array>& outputs, const std::vector<Array>& before) {
    for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bytes(outputs[i], before[i]));
  };
  const SgdOptions plain{.weight_decay = 0.1, .decoupled = true, .scaled = true};
  unchanged(run_op(ops::SgdUpdate(plain), {rate, factor, p, bad}), {p});
  const SgdOptions momentum{.momentum = 0.9, .weight_decay = 0.1, .scaled = true};
  unchanged(run_op(ops::SgdUpdate(momentum), {rate, factor, p, bad, m}), {p, m});
  const AdamOptions adam{.weight_decay = 0.1, .scaled = true};
  unchanged(run_op(ops::AdamUpdate(adam), {rate, step, factor, p, bad, m, v}), {p, m, v});
}
