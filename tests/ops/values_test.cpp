// Ops against values worked out by hand or by formulas written a second time, independently of the kernels.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/base/random.h"
#include "ops/conv/conv2d.h"
#include "ops/elementwise/cpu/normal.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/random.h"
#include "ops/index/gather.h"
#include "ops/index/top_k.h"
#include "ops/layout/reshape.h"
#include "ops/loss/cross_entropy.h"
#include "ops/norm/batch_norm.h"
#include "ops/optimizer/optimizer.h"
#include "ops/pool/pool.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"
#include "tests/ops/rounding.h"

using namespace braid;
using namespace braid::testing;

namespace {

template <class T>
std::vector<T> elements(const Array& array) {
  return {array.as<T>().begin(), array.as<T>().end()};
}

Array f32(std::vector<float> values, const Shape& shape) { return Array::from(values, shape); }
Array f64(std::vector<double> values, const Shape& shape) { return Array::from(values, shape); }
Array labels(std::vector<std::int32_t> values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}

/// Max pooling and its gradient by their definitions, and by the ops.
template <class T>
void check_max_pool(const PoolOptions& o, const Shape& xs) {
  CAPTURE(message(o.window.h, 'x', o.window.w, ' ', xs));
  const Shape ys = ops::pooled_shape("test", o, xs);
  std::vector<T> x, dy, y(static_cast<std::size_t>(ys.size())), dx(static_cast<std::size_t>(xs.size()));
  std::vector<std::uint8_t> places(y.size());
  // Few different values, so that many are equal; and gradients whose sums are exact in any order.
  for (std::int64_t i = 0; i < xs.size(); ++i) x.push_back(static_cast<T>((i * 7919 + i / 13) % 5 - 2));
  for (std::int64_t i = 0; i < ys.size(); ++i) dy.push_back(static_cast<T>((i * 104729) % 17 - 8));
  for (std::size_t i = 5; i < x.size(); i += 101) x[i] = std::numeric_limits<T>::quiet_NaN();
  std::size_t number = 0;
  for (std::int64_t n = 0; n < ys[0]; ++n) {
    for (std::int64_t p = 0; p < ys[1]; ++p) {
      for (std::int64_t q = 0; q < ys[2]; ++q) {
        for (std::int64_t c = 0; c < ys[3]; ++c, ++number) {
          std::int64_t best = -1;
          for (std::int64_t place = 0; place < o.window.h * o.window.w; ++place) {
            const std::int64_t row = p * o.stride.h - o.padding.h + place / o.window.w;
            const std::int64_t column = q * o.stride.w - o.padding.w + place % o.window.w;
            if (row < 0 || row >= xs[1] || column < 0 || column >= xs[2]) continue;
            const std::int64_t at = ((n * xs[1] + row) * xs[2] + column) * xs[3] + c;
            const T value = x[static_cast<std::size_t>(at)];
            if (best >= 0 && !std::isnan(value) && !(value > x[static_cast<std::size_t>(best)])) continue;
            best = at;
            places[number] = static_cast<std::uint8_t>(place);
          }
          y[number] = x[static_cast<std::size_t>(best)];
          dx[static_cast<std::size_t>(best)] += dy[number];
        }
      }
    }
  }
  const std::vector<Array> forward = run_op(ops::MaxPool2d(o), {Array::from(x, xs)});
  CHECK(same_bytes(forward[0], Array::from(y, ys)));
  CHECK(elements<std::uint8_t>(forward[1]) == places);
  CHECK(elements<T>(run_op(ops::MaxPool2dBackward(o, xs), {Array::from(dy, ys), forward[1]})[0]) == dx);
}

/// Calls check(op, inputs, the result of plain loops in f64) for a convolution and both of its gradients.
template <class Check>
void for_convolution_and_gradients(const Conv2dOptions& options, const Array& x, const Array& w, const Array& dy,
                                   const Check& check) {
  for (const auto& [op, inputs] :
       {std::pair{OpPtr(std::make_shared<ops::Conv2d>(options)), std::vector{x, w}},
        {std::make_shared<ops::Conv2dBackwardData>(options, x.shape()), std::vector{dy, w}},
        {std::make_shared<ops::Conv2dBackwardFilter>(options, w.shape()), std::vector{x, dy}}}) {
    CAPTURE(op->name());
    std::vector<Array> wide;
    for (const Array& input : inputs) wide.push_back(cast(input, DType::f64));
    check(*op, inputs, run_op(*op, wide, {.portable = true})[0]);
  }
}

TEST_CASE("draw_normal() draws the numbers of the generator, a few of which differ in their last bit") {
  Generator generator(3, 5);
  generator.seek(4096);
  std::vector<float> numbers(static_cast<std::size_t>(some_of(1'000'000) + 3));
  cpu::draw_normal(Generator(3, 5), 4096, numbers);
  std::int64_t differing = 0;
  for (const float number : numbers) {
    const float drawn = generator.normal();
    if (number == drawn) continue;
    ++differing;
    CHECK(std::abs(number - drawn) <= 0x1p-23f * std::abs(drawn));
  }
  CHECK(differing <= 2);
}

}  // namespace

TEST_CASE("max pooling is right for every number of channels, for which there are several loops") {
  for (const std::int64_t channels : {1, 2, 3, 4, 5, 6, 7, 8, 16, 63, 64, 65, 66, 67, 130}) {
    for (const PoolOptions& options : {PoolOptions{},
                                       {.window = 3, .stride = 2, .padding = 1},
                                       {.window = 3, .stride = 1},
                                       {.window = {1, 5}, .stride = {3, 2}, .padding = {0, 2}},
                                       {.window = 2, .stride = 3, .ceil_mode = true}}) {
      check_max_pool<float>(options, {2, 7, 9, channels});
      check_max_pool<double>(options, {2, 7, 9, channels});
    }
  }
}

TEST_CASE("the windows of a pooling may be larger than the padded input where extents are rounded up") {
  check_max_pool<float>({.window = 5, .stride = 4, .ceil_mode = true}, {2, 2, 3, 5});
  check_max_pool<double>({.window = {7, 3}, .stride = {5, 2}, .padding = {1, 0}, .ceil_mode = true}, {1, 2, 2, 3});
  // As in PyTorch, a mean that counts the padding counts none of what lies beyond.
  const Array x = f32({1, 2, 3, 6}, {1, 2, 2, 1});
  const PoolOptions options{.window = 5, .stride = 4, .padding = 1, .ceil_mode = true};
  CHECK(elements<float>(run_op(ops::AvgPool2d(options), {x})[0]) == std::vector<float>{12.0f / 16});
  PoolOptions inside = options;
  inside.count_include_pad = false;
  CHECK(elements<float>(run_op(ops::AvgPool2d(inside), {x})[0]) == std::vector<float>{3});
}

TEST_CASE("a kernel by Winograd's algorithm states a quarter of the arithmetic, and others state none") {
  const ops::Conv2d op(Conv2dOptions{.padding = 1});
  const std::vector<ValueDesc> inputs{{DType::f32, {2, 32, 32, 32}}, {DType::f32, {32, 3, 3, 32}}};
  const std::vector<ValueDesc> outputs{{DType::f32, {2, 32, 32, 32}}};
  const auto flops = [&](bool direct) {
    return make_kernel(DeviceType::cpu, {.op = op, .inputs = inputs, .outputs = outputs, .direct = direct})->flops();
  };
  CHECK(flops(true) == 0);
  const double stated = flops(false);
  CHECK((stated == 0 || 4 * stated == op.work(inputs, outputs).flops));  // 0: a processor without AVX-512
}

TEST_CASE("direct convolutions of integers are exact, and keep a NaN, an infinity or a spike to the filter's reach") {
  const Conv2dOptions options{.padding = 1};
  const Shape image{2, 32, 32, 32}, filter{32, 3, 3, 32};  // large enough for Winograd's algorithm
  const auto integers = [](const Shape& shape, std::int64_t step, std::int64_t most) {
    std::vector<float> list;
    for (std::int64_t i = 0; i < shape.size(); ++i)
      list.push_back(static_cast<float>(i * step % (2 * most + 1) - most));
    return Array::from(list, shape);
  };
  // Filters of 2^18 elements and more are copied in parts: few filters as one, and many thousands in no more parts.
  for (const auto& [x_shape, w_shape] :
       {std::pair{image, filter}, {{1, 7, 7, 256}, {48, 5, 5, 256}}, {{1, 3, 3, 4}, {8200, 3, 3, 4}}}) {
    CAPTURE(w_shape);
    const Array x = integers(x_shape, 7919, 100), w = integers(w_shape, 104729, 10);
    const Shape y_shape = run_op(ops::Conv2d(options), {x, w}, {.direct = true})[0].shape();
    const Array dy = integers(y_shape, 7919, 100);
    for_convolution_and_gradients(
        options, x, w, dy, [](const Op& op, const std::vector<Array>& inputs, const Array& exact) {
          CHECK(same_bytes(run_op(op, inputs, {.width = 2, .direct = true})[0], cast(exact, DType::f32)));
        });
  }
  for (const float spoilt : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    std::vector<float> spiked(static_cast<std::size_t>(image.size()), 1);
    spiked[(10 * 32 + 20) * 32 + 3] = spoilt;
    std::vector<float> mean(static_cast<std::size_t>(filter.size()), 1.0f / 8);
    const Array y =
        run_op(ops::Conv2d(options), {Array::from(spiked, image), Array::from(mean, filter)}, {.direct = true})[0];
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const std::int64_t pixel = i / 32, row = pixel / 32, column = pixel % 32;
      const bool reached = std::abs(row - 10) <= 1 && std::abs(column - 20) <= 1;
      CHECK(!(std::abs(element(y, i)) <= 36) == reached);  // 36: nine pixels of 32 channels, each 1/8
    }
  }
}

TEST_CASE("random convolutions of any extents agree with plain loops, on one core and on two" *
          doctest::skip(kThreadsOnly)) {
  for (int seed = 0; seed < some_of(400); ++seed) {
    CAPTURE(seed);
    Generator random(static_cast<std::uint64_t>(seed));
    const auto one_of = [&](std::vector<std::int64_t> list) {
      return list[random.below(static_cast<std::uint32_t>(list.size()))];
    };
    const std::vector<std::int64_t> sizes{1, 2, 3, 5, 8, 13, 28}, windows{1, 2, 3, 3, 5, 7};
    const std::vector<std::int64_t> channels{1, 2, 3, 8, 16, 31, 48, 64, 100, 512, 2048};
    const std::int64_t groups = one_of({1, 1, 1, 1, 2, 4, 8, 32}),
                       depth = groups > 1 ? one_of({1, 1, 2, 3, 4, 8}) : one_of(channels);
    const Shape w{groups * (groups > 1 ? one_of({1, depth, depth, 2, 5}) : one_of(channels)), one_of(windows),
                  one_of(windows), depth};
    const Shape x{one_of({1, 1, 2, 9}), one_of(sizes), one_of(sizes), groups * depth};
    const Conv2dOptions options{.stride = one_of({1, 1, 2, 3}),
                                .padding = {one_of({0, w[1] / 2}), one_of({0, w[2] / 2})},
                                .dilation = one_of({1, 1, 1, 2}),
                                .groups = groups};
    const auto reach = [&](int axis) { return options.dilation.h * (w[axis] - 1) + 1; };
    if (x[1] + 2 * options.padding.h < reach(1) || x[2] + 2 * options.padding.w < reach(2)) continue;
    if (x.size() / x[3] * w.size() > 20'000'000) continue;
    const Shape y = run_op(ops::Conv2d(options), {Array(DType::f32, x), Array(DType::f32, w)})[0].shape();
    CAPTURE(message(x, " by ", w, " to ", y));
    // Winograd's algorithm rounds to some 2e-5 of the root mean square; a wrong element is off by about that itself.
    for_convolution_and_gradients(options, noise(x, 1), noise(w, 2), noise(y, 3),
                                  [](const Op& op, const std::vector<Array>& inputs, const Array& exact) {
                                    for (const int width : {1, 2}) {
                                      CHECK(largest_difference(run_op(op, inputs, {.width = width})[0], exact) <=
                                            2e-4 * std::max(1.0, largest(exact)));
                                    }
                                  });
  }
}

TEST_CASE("a convolution with an activation is the convolution, then the activation, and loses no NaN or infinity") {
  int found = 0;
  for (const OpRow& row : op_table()) {
    const auto* conv = dynamic_cast<const ops::Conv2d*>(row.op.get());
    if (conv == nullptr || conv->attributes().activation == Activation::none) continue;
    CAPTURE(describe(row));
    ++found;
    Conv2dOptions options = conv->attributes();
    const bool relu6 = std::exchange(options.activation, Activation::none) == Activation::relu6;
    for (const bool portable : {false, true}) {
      CAPTURE(portable);
      std::vector<Array> inputs = make_inputs(row, DType::f32);
      const auto run = [&](const Op& op) { return run_op(op, inputs, {.width = 2, .portable = portable})[0]; };
      const Array y = run(ops::Conv2d(options));
      CHECK(same_bytes(run(*conv), (relu6 ? run_op(ops::Relu6(), {y}) : run_op(ops::Relu(), {y}))[0]));
      if (inputs[0].size() == 0 || relu6) continue;
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        inputs.back().as<float>()[0] = bad;  // in the bias or the filter: in every pixel of channel 0 that sees it
        const Array spoilt = run(*conv);
        std::int64_t lost = 0, channels = y.shape()[3];
        for (std::int64_t i = 0; i < y.size(); i += channels) lost += std::isfinite(element(spoilt, i));
        if (inputs.size() == 3) CHECK(lost == 0);
        CHECK(lost < y.size() / channels);
      }
    }
  }
  CHECK(found > 0);
}

TEST_CASE("batch norm normalises with the biased variance and keeps the unbiased one, as PyTorch does") {
  const Array x = f64({1, 2, 3, 4}, {4, 1});
  const std::vector<Array> y = run_op(ops::BatchNorm({.epsilon = 0.75, .momentum = 0.1}),
                                      {x, f64({2}, {1}), f64({10}, {1}), f64({0}, {1}), f64({1}, {1})});
  // Mean 2.5, variance 1.25 and, unbiased, 5/3; 1/√(1.25 + 0.75) = 0.7071….
  const double scale = 2 / std::sqrt(2.0);
  for (int i = 0; i < 4; ++i) CHECK(element(y[0], i) == doctest::Approx(10 + (i - 1.5) * scale).epsilon(1e-14));
  CHECK(element(y[1], 0) == doctest::Approx(2.5).epsilon(1e-14));
  CHECK(element(y[2], 0) == doctest::Approx(1 / std::sqrt(2.0)).epsilon(1e-14));
  CHECK(element(y[3], 0) == doctest::Approx(0.25).epsilon(1e-14));
  CHECK(element(y[4], 0) == doctest::Approx(0.9 + 0.1 * 5 / 3).epsilon(1e-14));
}

TEST_CASE("batch norm with ReLU6 passes a gradient only where it cuts nothing off") {
  const BatchNormOptions options{.epsilon = 0, .activation = Activation::relu6, .add = true};
  const Array x = f64({-1, 1, -1, 1}, {4, 1}), one = f64({1}, {1}), zero = f64({0}, {1});
  const Array y = run_op(ops::BatchNorm(options), {x, one, zero, zero, one, f64({0, 4, 7, 5.5}, {4, 1})})[0];
  CHECK(elements<double>(y) == std::vector<double>{0, 5, 6, 6});
  const Array dy = f64({1, 2, 3, 4}, {4, 1});
  CHECK(elements<double>(run_op(ops::BatchNormBackward(options), {dy, x, one, zero, one, y})[3]) ==
        std::vector<double>{0, 2, 0, 0});
}

TEST_CASE("batch statistics stay accurate far from zero") {
  constexpr std::int64_t kRows = 20000, kChannels = 3;
  Generator random(5);
  std::vector<float> values(kRows * kChannels);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = random.normal() + (i % 3 == 0 ? 0.0f : i % 3 == 1 ? 1e3f : -3e4f);
  }
  values[2] = 0;  // the first pixel is an outlier: it must not spoil the shift of its channel
  const Array c = f32({1, 1, 1}, {3});
  const std::vector<Array> y =
      run_op(ops::BatchNorm({.epsilon = 0}), {f32(values, {kRows, kChannels}), c, c, c, c}, {.width = 2});
  for (std::size_t channel = 0; channel < kChannels; ++channel) {
    double mean = 0, squares = 0;
    for (std::size_t i = channel; i < values.size(); i += kChannels) mean += static_cast<double>(values[i]);
    mean /= kRows;
    for (std::size_t i = channel; i < values.size(); i += kChannels) {
      squares += (static_cast<double>(values[i]) - mean) * (static_cast<double>(values[i]) - mean);
    }
    const auto at = static_cast<std::int64_t>(channel);
    CHECK(element(y[1], at) == doctest::Approx(mean).epsilon(2e-7));
    CHECK(element(y[2], at) == doctest::Approx(1 / std::sqrt(squares / kRows)).epsilon(1e-6));
  }
}

TEST_CASE("a constant channel has variance zero") {
  const Array c = f32({1}, {1});
  const std::vector<Array> y =
      run_op(ops::BatchNorm({.epsilon = 0.25}), {f32(std::vector<float>(999, 0.1f), {999, 1}), c, c, c, c});
  CHECK(element(y[1], 0) == static_cast<double>(0.1f));
  CHECK(element(y[2], 0) == 2.0);
}

TEST_CASE("average pooling divides as PyTorch does") {
  const Array x = f32({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  const PoolOptions padded{.window = 2, .stride = 2, .padding = 1};
  CHECK(elements<float>(run_op(ops::AvgPool2d(padded), {x})[0]) == std::vector<float>{0.25, 1.25, 2.75, 7});
  PoolOptions inside = padded;
  inside.count_include_pad = false;
  CHECK(elements<float>(run_op(ops::AvgPool2d(inside), {x})[0]) == std::vector<float>{1, 2.5, 5.5, 7});
  // With ceil mode, what hangs over image and padding never counts.
  const PoolOptions ceil{.window = 2, .stride = 2, .ceil_mode = true};
  CHECK(elements<float>(run_op(ops::AvgPool2d(ceil), {x})[0]) == std::vector<float>{3, 4.5, 7.5, 9});
}

TEST_CASE("adaptive pooling has the windows of PyTorch, downward and upward") {
  const Array row = f32({1, 2, 3, 4, 5}, {1, 1, 5, 1}), column = f32({1, 2}, {1, 2, 1, 1});
  CHECK(elements<float>(run_op(ops::AdaptiveAvgPool2d({1, 3}), {row})[0]) == std::vector<float>{1.5, 3, 4.5});
  CHECK(elements<float>(run_op(ops::AdaptiveAvgPool2d({3, 1}), {column})[0]) == std::vector<float>{1, 1.5, 2});
}

TEST_CASE("cross entropy of known probabilities") {
  const Array logits = f64({0, std::log(3.0)}, {1, 2});  // softmax is 1/4, 3/4
  const std::vector<Array> plain = run_op(ops::CrossEntropy(0), {logits, labels({1})});
  CHECK(element(plain[0], 0) == doctest::Approx(-std::log(0.75)).epsilon(1e-14));
  CHECK(element(plain[1], 0) == doctest::Approx(0.25).epsilon(1e-14));
  const std::vector<Array> smooth = run_op(ops::CrossEntropy(0.2), {logits, labels({1})});
  CHECK(element(smooth[0], 0) == doctest::Approx(-0.1 * std::log(0.25) - 0.9 * std::log(0.75)).epsilon(1e-14));
  const Array gradient = run_op(ops::CrossEntropyBackward(0.2), {f64({2}, {}), smooth[1], labels({1})})[0];
  CHECK(element(gradient, 0) == doctest::Approx(2 * (0.25 - 0.1)).epsilon(1e-14));
  CHECK(element(gradient, 1) == doctest::Approx(2 * (0.75 - 0.9)).epsilon(1e-14));
}

TEST_CASE("cross entropy with given probabilities equals that with labels if they are certain, and is linear in them") {
  const Array logits = f64({0, std::log(3.0)}, {1, 2});
  for (const double smoothing : {0.0, 0.2}) {
    const ops::CrossEntropy op(smoothing);
    const double first = element(run_op(op, {logits, labels({0})})[0], 0);
    const double second = element(run_op(op, {logits, labels({1})})[0], 0);
    CHECK(element(run_op(op, {logits, f64({0, 1}, {1, 2})})[0], 0) == doctest::Approx(second).epsilon(1e-14));
    CHECK(element(run_op(op, {logits, f64({0.3, 0.7}, {1, 2})})[0], 0) ==
          doctest::Approx(0.3 * first + 0.7 * second).epsilon(1e-14));
  }
}

TEST_CASE("cross entropy of infinite and of enormous logits is what remains without them") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto loss = [](std::vector<float> row, std::int32_t label, double smoothing = 0) {
    const Shape shape{1, std::ssize(row)};
    return element(run_op(ops::CrossEntropy(smoothing), {f32(std::move(row), shape), labels({label})})[0], 0);
  };
  CHECK(loss({-kInf, 1, 2, -kInf}, 1) == doctest::Approx(1.3132617).epsilon(1e-6));
  CHECK(loss({3e38f, -3e38f}, 0) == 0);
  CHECK(loss({-kInf, 1, 2, -kInf}, 0) == kInf);
  CHECK(loss({-kInf, 1}, 1, 0.1) == kInf);  // smoothing expects something of every class
}

TEST_CASE("a label that is no class is an error that names it, whatever the width") {
  const Array logits = f32(std::vector<float>(9), {3, 3});
  for (const int width : {1, 2}) {
    const auto run = [&](const Op& op, int label) { run_op(op, {logits, labels({0, 2, label})}, {.width = width}); };
    CHECK_THROWS_WITH_AS(run(ops::CrossEntropy(0), 3), "[cross_entropy] expected labels in [0, 3), got 3 in row 2",
                         DataError);
    CHECK_THROWS_WITH_AS(run(ops::CrossEntropy(0), -1), "[cross_entropy] expected labels in [0, 3), got -1 in row 2",
                         DataError);
    CHECK_THROWS_AS(run(ops::Accuracy(1), 3), DataError);
  }
}

TEST_CASE("a row with a NaN is not right by accident") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto accuracy = [&](std::vector<float> row) {
    return elements<float>(run_op(ops::Accuracy(1), {f32(std::move(row), {1, 3}), labels({0})})[0])[0];
  };
  CHECK(accuracy({nan, nan, nan}) == 0);
  CHECK(accuracy({1, nan, 0}) == 0);
  CHECK(accuracy({nan, 0, 0}) == 0);
}

TEST_CASE("accuracy counts a tie for the smaller index") {
  const Array logits = f32({1, 3, 3, 2, /**/ 3, 1, 2, 0}, {2, 4});
  const auto accuracy = [&](std::int64_t k, std::int32_t first, std::int32_t second) {
    return element(run_op(ops::Accuracy(k), {logits, labels({first, second})})[0], 0);
  };
  CHECK(accuracy(1, 1, 0) == 1);
  CHECK(accuracy(1, 2, 0) == 0.5);
  CHECK(accuracy(2, 2, 1) == 0.5);
  CHECK(accuracy(3, 3, 1) == 1);
}

TEST_CASE("dropout keeps the share it should, scales it, and repeats its mask") {
  constexpr std::int64_t kSize = 100003;
  const Array ones = f32(std::vector<float>(kSize, 1), {kSize});
  const auto mask = [&](const Array& x, std::int32_t step, int width, std::uint32_t layer = 1) {
    return run_op(ops::Dropout(0.25, 9, layer), {x, Array::scalar(step)}, {.width = width})[0];
  };
  const std::vector<float> y = elements<float>(mask(ones, 5, 1));
  const auto kept = static_cast<double>(std::count_if(y.begin(), y.end(), [](float v) { return v != 0; }));
  // Five standard deviations of a binomial distribution.
  CHECK(std::abs(kept / kSize - 0.75) < 5 * std::sqrt(0.75 * 0.25 / kSize));
  CHECK(std::all_of(y.begin(), y.end(), [](float v) { return v == 0 || v == doctest::Approx(4.0 / 3).epsilon(1e-6); }));

  CHECK(same_bytes(mask(ones, 5, 1), mask(ones, 5, 3)));
  CHECK_FALSE(same_bytes(mask(ones, 5, 1), mask(ones, 6, 1)));
  CHECK_FALSE(same_bytes(mask(ones, 5, 1), mask(ones, 5, 1, 2)));
  const std::vector<double> exact = elements<double>(mask(f64(std::vector<double>(kSize, 1), {kSize}), 5, 1));
  CHECK(std::equal(y.begin(), y.end(), exact.begin(), [](float a, double b) { return (a == 0) == (b == 0); }));
}

TEST_CASE("random numbers have the moments of their distribution, and others in every call and step") {
  constexpr std::int64_t kSize = 100001;
  const auto draw = [&](bool normal, std::uint32_t call, std::int32_t step, int width = 1) {
    return run_op(ops::Random(ValueDesc{DType::f64, {kSize}}, normal, 9u, call), {Array::scalar(step)},
                  {.width = width})[0];
  };
  for (const bool normal : {false, true}) {
    double sum = 0, squares = 0, neighbours = 0, previous = 0;
    const std::vector<double> numbers = elements<double>(draw(normal, 1, 5));
    for (const double number : numbers) {
      const double centred = number - (normal ? 0 : 0.5);
      sum += centred;
      squares += centred * centred;
      neighbours += centred * std::exchange(previous, centred);
    }
    // Five standard deviations of each mean.
    const double variance = normal ? 1 : 1.0 / 12, of_squares = normal ? 2 : 1.0 / 80 - 1.0 / 144;
    CHECK(std::abs(sum / kSize) < 5 * std::sqrt(variance / kSize));
    CHECK(std::abs(squares / kSize - variance) < 5 * std::sqrt(of_squares / kSize));
    CHECK(std::abs(neighbours / kSize) < 5 * variance / std::sqrt(kSize));
    CHECK(same_bytes(draw(normal, 1, 5), draw(normal, 1, 5, 3)));
    CHECK_FALSE(same_bytes(draw(normal, 1, 5), draw(normal, 1, 6)));
    CHECK_FALSE(same_bytes(draw(normal, 1, 5), draw(normal, 2, 5)));
  }
}

TEST_CASE("elements are gathered by their indices, and one that names no element is an error") {
  const auto gather = [](const Shape& index_shape, std::vector<std::int32_t> index, std::int64_t nothing) {
    return run_op(ops::Gather(0, nothing), {f32({1, 2, 3, 4, 5, 6}, {3, 2}), Array::from(index, index_shape)})[0];
  };
  constexpr std::int64_t kEvery = ops::GatherAttributes::kEveryIndex;
  CHECK(elements<float>(gather({2, 1}, {2, 0}, kEvery)) == std::vector<float>{5, 6, 1, 2});
  CHECK(elements<float>(gather({2, 2}, {2, 0, 1, 1}, kEvery)) == std::vector<float>{5, 2, 3, 4});
  CHECK(elements<float>(gather({2, 1}, {-100, 1}, -100)) == std::vector<float>{0, 0, 3, 4});
  CHECK_THROWS_WITH_AS(gather({2, 1}, {0, 3}, kEvery), "[gather] expected indices in [0, 3), got 3 at place 1",
                       DataError);
  CHECK_THROWS_WITH_AS(gather({2, 1}, {-1, 0}, -100), "[gather] expected indices in [0, 3), got -1 at place 0",
                       DataError);
  const ops::ScatterSum sum(ops::GatherAttributes{0, 1}, 3);
  CHECK(
      elements<float>(run_op(sum, {f32({1, 2, 4, 8, 16, 32}, {3, 2}), Array::from(std::vector{2, 1, 2}, {3, 1})})[0]) ==
      std::vector<float>{0, 0, 0, 0, 17, 34});
  CHECK_THROWS_AS(run_op(sum, {f32({1, 2}, {1, 2}), Array::from(std::vector{5}, {1, 1})}), DataError);
}

TEST_CASE("the largest elements come in order, equal ones as they lie, a NaN first") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = f32({1, 3, nan, 3, -2, nan}, {1, 6});
  CHECK(elements<std::int32_t>(run_op(ops::TopK(6, true), {x})[1]) == std::vector{2, 5, 1, 3, 0, 4});
  CHECK(elements<std::int32_t>(run_op(ops::TopK(5, false), {x})[1]) == std::vector{4, 0, 1, 3, 2});
  CHECK(elements<float>(run_op(ops::TopK(3, false), {x})[0]) == std::vector<float>{-2, 1, 3});
}

TEST_CASE("gradients pass a ReLU and a ReLU6 where they are NaN, as in PyTorch") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array dy = f32({1, 2, 3, 4}, {4}), y = f32({0, nan, 2, 6}, {4});
  CHECK(elements<float>(run_op(ops::ReluBackward(), {dy, y})[0]) == std::vector<float>{0, 2, 3, 4});
  CHECK(elements<float>(run_op(ops::Relu6Backward(), {dy, y})[0]) == std::vector<float>{0, 2, 3, 0});
}

TEST_CASE("a batch with a NaN leaves NaN in the running statistics of its channel alone") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = f32({1, 1, nan, 2, 3, 3}, {3, 2}), ones = f32({1, 1}, {2}), zeros = f32({0, 0}, {2});
  for (const bool portable : {false, true}) {
    const std::vector<Array> y =
        run_op(ops::BatchNorm(BatchNormOptions{}), {x, ones, zeros, zeros, ones}, {.portable = portable});
    for (const std::size_t statistic : {3u, 4u}) {
      CHECK(std::isnan(element(y[statistic], 0)));
      CHECK(std::isfinite(element(y[statistic], 1)));
    }
  }
}

TEST_CASE("Adam in f32 takes 1 - beta of beta as it was given") {
  const auto moments = [](auto one) {
    using T = decltype(one);
    const auto array = [](T value) { return Array::from<T>({value}, {1}); };
    return run_op(ops::AdamUpdate(AdamOptions{.beta1 = 0.95, .beta2 = 0.999}),
                  {Array::scalar(1e-3), Array::scalar(1), array(1), array(3), array(0), array(0)});
  };
  const std::vector<Array> f = moments(1.0f), d = moments(1.0);
  CHECK(element(f[1], 0) == doctest::Approx(0.15).epsilon(1e-7));
  CHECK(element(f[2], 0) == doctest::Approx(0.009).epsilon(1e-7));
  CHECK(element(f[2], 0) == doctest::Approx(element(d[2], 0)).epsilon(1e-7));
}

TEST_CASE("updates in f64 take the learning rate and the weight decay as they were given") {
  const auto array = [](double value) { return Array::from<double>({value}, {1}); };
  constexpr double kRate = 0.1, kDecay = 0.3;  // no numbers of f32
  const std::vector<Array> sgd =
      run_op(ops::SgdUpdate(SgdOptions{.weight_decay = kDecay}), {Array::scalar(kRate), array(1.5), array(0.7)});
  CHECK(element(sgd[0], 0) == doctest::Approx(1.5 - kRate * (0.7 + kDecay * 1.5)).epsilon(1e-14));
  const std::vector<Array> adam =
      run_op(ops::AdamUpdate(AdamOptions{.weight_decay = kDecay, .decoupled = true}),
             {Array::scalar(kRate), Array::scalar(1), array(1.5), array(0.7), array(0), array(0)});
  const double expected = 1.5 * (1 - kRate * kDecay) - kRate * 0.7 / (0.7 + AdamOptions{}.epsilon);
  CHECK(element(adam[0], 0) == doctest::Approx(expected).epsilon(1e-13));
}

TEST_CASE("a ReLU cuts at 0, a ReLU6 at 6 too, and a NaN survives both") {
  const Array x = f32({-1, std::numeric_limits<float>::quiet_NaN(), 2, 7}, {4});
  for (const bool six : {false, true}) {
    const std::vector<float> y = elements<float>((six ? run_op(ops::Relu6(), {x}) : run_op(ops::Relu(), {x}))[0]);
    CHECK(y[0] == 0);
    CHECK(std::isnan(y[1]));
    CHECK(y[2] == 2);
    CHECK(y[3] == (six ? 6 : 7));
  }
}

TEST_CASE("one value may be several inputs of a sum that takes its place") {
  for (const std::size_t count : {2, 3, 4, 5, 6}) {
    float a[] = {1, 2}, b[] = {10, 20};
    const std::vector<ValueDesc> inputs(count, {DType::f32, {2}}), outputs(1, {DType::f32, {2}});
    std::vector<void*> addresses(count, a);
    addresses[1] = b;
    launch(ops::Sum(), inputs, outputs, addresses, {a}, {});
    CHECK(a[0] == 10.0f + static_cast<float>(count - 1));
    CHECK(a[1] == 20.0f + 2 * static_cast<float>(count - 1));
  }
}
