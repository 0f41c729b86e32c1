// Ops that decide by how much a step updates parameters: the scale of the loss, and clipping. A skipped update changes
// nothing.

#include "ops/optimizer/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "ops/optimizer/blend.h"
#include "ops/optimizer/clip_factor.h"
#include "ops/optimizer/loss_scale.h"
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

struct Clipped {
  double factor, norm;
};

Clipped clip(const ClipOptions& options, const std::vector<Array>& inputs) {
  const std::vector<Array> outputs = run_op(ops::ClipFactor(options), inputs);
  return {outputs[0].as<double>()[0], outputs[1].as<double>()[0]};
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

TEST_CASE("a parameter gets the same bits as a whole, past the caches, and in small parts") {
  const auto check = [](const Op& op, const std::vector<Array>& scalars, std::size_t moments, auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kSize = 300007, kParts = 7;  // odd, so that parts are not aligned
    const auto arrays = [&](std::int64_t begin, std::int64_t end) {
      std::vector<Array> list;
      for (std::size_t i = 0; i < 2 + moments; ++i) {
        Array& array = list.emplace_back(dtype_of<T>(), Shape{end - begin});
        for (std::int64_t e = begin; e < end; ++e) {
          array.as<T>()[static_cast<std::size_t>(e - begin)] =
              T(1) / static_cast<T>(3 + (e * 7 + static_cast<std::int64_t>(i) * 5) % 1013);
        }
      }
      return list;
    };
    std::vector<Array> whole = scalars, parts = scalars;
    std::ranges::copy(arrays(0, kSize), std::back_inserter(whole));
    for (std::int64_t i = 0; i < kParts; ++i) {
      std::ranges::copy(arrays(kSize * i / kParts, kSize * (i + 1) / kParts), std::back_inserter(parts));
    }
    const std::vector<Array> expected = run_op(op, parts, {.width = 2}), got = run_op(op, whole, {.width = 2});
    for (std::size_t output = 0; output <= moments; ++output) {
      std::vector<T> joined;
      for (std::size_t i = output; i < expected.size(); i += 1 + moments) {
        std::ranges::copy(expected[i].as<T>(), std::back_inserter(joined));
      }
      CHECK(std::memcmp(joined.data(), got[output].as<T>().data(), joined.size() * sizeof(T)) == 0);
    }
  };
  const auto check_all = [&](auto zero) {
    const Array rate = Array::scalar(0.3);
    check(ops::SgdUpdate({.weight_decay = 0.1}), {rate}, 0, zero);
    check(ops::SgdUpdate({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), {rate}, 1, zero);
    check(ops::AdamUpdate({.weight_decay = 0.1}), {rate, Array::scalar<std::int32_t>(3)}, 2, zero);
  };
  check_all(0.0f);
  check_all(0.0);
}

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
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    CHECK(clip({.max_norm = 1}, {Array::from<float>({1, bad}, {2})}).factor == 0);
  }
  CHECK(clip({.max_norm = 1, .scaled = true}, {Array::scalar(0.0), Array::scalar(7.0f)}).factor == 0);
}

TEST_CASE("a blend by 0 forgets what was there, whatever it was") {
  const Array nan = Array::from<float>({kNaN, 2}, {2}), x = Array::from<float>({3, 5}, {2});
  const auto blend = [&](double a, double b) {
    return run_op(ops::Blend(), {Array::from<double>({a, b}, {2}), nan, x}, {})[0];
  };
  CHECK(blend(0, 2).as<float>()[0] == 6);
  CHECK(blend(0, 2).as<float>()[1] == 10);
  CHECK(std::isnan(blend(1, 2).as<float>()[0]));
  CHECK(blend(0.5, 2).as<float>()[1] == 11);
}
