#include "tests/ops/op_table.h"

#include <algorithm>

#include "core/base/random.h"
#include "ops/collective/collective.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/normalized_conv2d.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/loss/cross_entropy.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/optimizer/assign.h"
#include "ops/optimizer/blend.h"
#include "ops/optimizer/clip_factor.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/optimizer.h"
#include "ops/pool/pool.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_rows.h"

namespace braid::testing {

namespace {

/// A convolution and its two gradients.
void add_conv2d(Rows& rows, const Conv2dOptions& options, const Shape& x, const Shape& w) {
  const auto op = make<ops::Conv2d>(options);
  std::vector<OutputDesc> y;
  op->infer(std::vector<ValueDesc>{{DType::f32, x}, {DType::f32, w}}, y);
  rows.push_back({op, {{x}, {w}}, {0, 1}});
  rows.push_back({make<ops::Conv2dBackwardData>(options, x), {{y[0].shape}, {w}}, {0, 1}});
  rows.push_back({make<ops::Conv2dBackwardFilter>(options, w), {{x}, {y[0].shape}}, {0, 1}});
}

void add_conv2d_rows(Rows& rows) {
  const auto biased = make<ops::Conv2d>(Conv2dOptions{.stride = 2, .padding = 1});
  rows.push_back({biased, {{{2, 5, 6, 3}}, {{4, 3, 3, 3}}, {{4}}}, {0, 1, 2}});
  rows.push_back({biased, {{{2, 9, 9, 32}}, {{48, 3, 3, 32}}, {{48}}}});
  rows.push_back({make<ops::Conv2d>(Conv2dOptions{.padding = 1}), {{{3, 9, 14, 16}}, {{48, 3, 3, 16}}, {{48}}}});
  const Activation relu = Activation::relu;
  const auto add_activated = [&](const Conv2dOptions& options, const Shape& x, const Shape& w) {
    const auto op = make<ops::Conv2d>(options);
    rows.push_back({op, {{x}, {w}}, {0, 1}});
    rows.push_back({op, {{x}, {w}, {{w[0]}}}, {0, 1, 2}});
  };
  add_activated({.activation = relu}, {2, 5, 4, 3}, {4, 1, 1, 3});
  add_activated({.stride = 2, .padding = 1, .activation = relu}, {2, 5, 6, 3}, {2, 3, 3, 3});
  add_activated({.padding = 1, .groups = 2, .activation = relu}, {2, 4, 5, 4}, {6, 3, 3, 2});
  add_activated({.padding = 1, .groups = 3, .activation = relu}, {1, 4, 5, 3}, {3, 3, 3, 1});  // depthwise
  add_activated({.padding = 1, .activation = relu}, {0, 5, 4, 3}, {4, 3, 3, 3});               // no image
  add_activated({.activation = relu}, {3, 13, 11, 48}, {40, 1, 1, 48});
  add_activated({.stride = 2, .padding = 3, .activation = relu}, {2, 33, 31, 3}, {17, 7, 7, 3});
  add_activated({.padding = 1, .groups = 4, .activation = relu}, {2, 9, 9, 32}, {64, 3, 3, 8});
  add_activated({.padding = 1, .activation = relu}, {3, 14, 15, 32}, {48, 3, 3, 32});  // for Winograd's algorithm
  // Depthwise: taps in blocks of 3x3, windows of padding only.
  add_activated({.padding = 3, .groups = 17, .activation = relu}, {2, 17, 16, 17}, {17, 7, 7, 1});
  add_activated({.padding = 4, .groups = 35, .activation = relu}, {1, 12, 13, 35}, {35, 3, 3, 1});
  // ReLU6: by the portable loops or oneDNN, Winograd's algorithm, and depthwise with windows of padding only.
  const Activation relu6 = Activation::relu6;
  add_activated({.stride = 2, .padding = 1, .activation = relu6}, {2, 5, 6, 3}, {2, 3, 3, 3});
  add_activated({.activation = relu6}, {3, 13, 11, 48}, {40, 1, 1, 48});
  add_activated({.padding = 1, .activation = relu6}, {3, 14, 15, 32}, {48, 3, 3, 32});
  add_activated({.padding = 4, .groups = 35, .activation = relu6}, {1, 12, 13, 35}, {35, 3, 3, 1});
  add_conv2d(rows, {}, {1, 1, 1, 1}, {1, 1, 1, 1});
  add_conv2d(rows, {}, {2, 5, 4, 3}, {4, 1, 1, 3});
  add_conv2d(rows, {.stride = 2}, {3, 32, 32, 3}, {4, 1, 1, 3});  // oneDNN may gather what the filter sees
  add_conv2d(rows, {.padding = 1}, {2, 5, 4, 3}, {4, 3, 3, 3});
  add_conv2d(rows, {.stride = 2, .padding = 1}, {2, 5, 6, 3}, {2, 3, 3, 3});
  add_conv2d(rows, {.stride = {2, 3}, .padding = {2, 1}}, {1, 7, 8, 2}, {3, 5, 3, 2});
  add_conv2d(rows, {.stride = 3}, {1, 8, 8, 2}, {3, 2, 2, 2});  // input columns that no output sees
  add_conv2d(rows, {.padding = 2, .dilation = 2}, {1, 6, 5, 2}, {3, 3, 3, 2});
  add_conv2d(rows, {.stride = {1, 2}, .padding = {0, 3}, .dilation = {2, 3}}, {2, 6, 5, 2}, {2, 2, 3, 2});
  add_conv2d(rows, {.padding = 1, .groups = 2}, {2, 4, 5, 4}, {6, 3, 3, 2});
  add_conv2d(rows, {.stride = 2, .padding = 1, .groups = 5}, {1, 5, 5, 5}, {5, 3, 3, 1});  // depthwise
  add_conv2d(rows, {.padding = 1, .groups = 3}, {1, 4, 4, 3}, {6, 3, 3, 1});               // depthwise, multiplied
  // Depthwise, with its gradients, and large enough for the depthwise loops: taps in blocks of 3x3, windows of padding
  // only, inputs that no output sees, bands of rows and of images.
  const auto biased_depthwise = make<ops::Conv2d>(Conv2dOptions{.padding = 4, .groups = 3});
  rows.push_back({biased_depthwise, {{{1, 3, 2, 3}}, {{3, 3, 3, 1}}, {{3}}}, {0, 1, 2}});
  rows.push_back({biased_depthwise, {{{2, 12, 13, 3}}, {{3, 3, 3, 1}}, {{3}}}});
  add_conv2d(rows, {.stride = {2, 3}, .padding = {2, 0}, .groups = 2}, {2, 8, 9, 2}, {2, 5, 2, 1});
  add_conv2d(rows, {.padding = 3, .groups = 17}, {2, 17, 16, 17}, {17, 7, 7, 1});
  add_conv2d(rows, {.stride = 3, .groups = 2}, {1, 50, 52, 2}, {2, 2, 2, 1});
  add_conv2d(rows, {.stride = {4, 2}, .padding = 3, .dilation = {2, 3}, .groups = 3}, {2, 65, 40, 3}, {3, 4, 3, 1});
  add_conv2d(rows, {.padding = 4, .groups = 35}, {1, 12, 13, 35}, {35, 3, 3, 1});
  add_conv2d(rows, {.padding = 1, .groups = 5}, {90, 16, 16, 5}, {5, 3, 3, 1});
  add_conv2d(rows, {.stride = 2, .padding = 1, .groups = 48}, {2, 57, 60, 48}, {48, 3, 3, 1});
  // Groups of 2, 4 and 8 channels: the same cases.
  add_activated({.padding = 4, .groups = 24, .activation = relu}, {1, 12, 13, 48}, {48, 3, 3, 2});
  add_activated({.padding = 3, .groups = 4, .activation = relu6}, {2, 9, 20, 32}, {32, 7, 7, 8});
  add_conv2d(rows, {.stride = {2, 3}, .padding = {2, 0}, .groups = 4}, {2, 8, 9, 16}, {16, 5, 2, 4});
  add_conv2d(rows, {.padding = 3, .groups = 2}, {2, 17, 16, 16}, {16, 7, 7, 8});
  add_conv2d(rows, {.stride = {4, 2}, .padding = 3, .dilation = {2, 3}, .groups = 8}, {2, 65, 40, 16}, {16, 3, 4, 2});
  add_conv2d(rows, {.padding = 4, .groups = 12}, {1, 12, 13, 48}, {48, 3, 3, 4});
  add_conv2d(rows, {.padding = 1, .groups = 4}, {40, 16, 15, 32}, {32, 3, 3, 8});
  add_conv2d(rows, {.stride = 2, .padding = 1, .groups = 12}, {2, 57, 60, 48}, {48, 3, 3, 4});
  add_conv2d(rows, {.padding = 4}, {1, 2, 2, 1}, {1, 3, 3, 1});  // windows of padding only
  add_conv2d(rows, {.padding = 1}, {0, 5, 4, 3}, {4, 3, 3, 3});  // no image
  add_conv2d(rows, {.stride = 2, .padding = 3}, {2, 33, 31, 3}, {17, 7, 7, 3});
  add_conv2d(rows, {.padding = 1}, {3, 14, 15, 32}, {48, 3, 3, 32});
  // Large enough to be cut: by images, by rows, by rows of which some are all padding, with groups, by filters.
  add_conv2d(rows, {.padding = 2}, {20, 6, 7, 24}, {40, 5, 5, 24});
  add_conv2d(rows, {.padding = 2}, {2, 19, 13, 24}, {40, 5, 5, 24});
  add_conv2d(rows, {.stride = 2, .padding = 3}, {1, 40, 37, 16}, {64, 7, 7, 16});
  add_conv2d(rows, {.stride = {3, 2}, .padding = {1, 4}, .dilation = {2, 1}}, {1, 62, 41, 32}, {64, 5, 3, 32});
  add_conv2d(rows, {.stride = 2}, {2, 61, 60, 64}, {96, 1, 1, 64});
  add_conv2d(rows, {.padding = 6}, {1, 12, 12, 32}, {64, 5, 5, 32});
  add_conv2d(rows, {.padding = 1, .groups = 4}, {4, 14, 14, 64}, {64, 3, 3, 16});
  add_conv2d(rows, {.stride = 2, .padding = 1}, {4, 8, 8, 64}, {200, 3, 3, 64});
  add_conv2d(rows, {}, {2, 6, 6, 832}, {320, 1, 1, 832});
  add_conv2d(rows, {}, {2, 13, 13, 200}, {200, 1, 1, 200});
  add_activated({.activation = relu6}, {1, 17, 19, 16}, {41, 1, 1, 16});
  add_activated({.padding = 2, .activation = relu}, {2, 19, 13, 24}, {40, 5, 5, 24});
  // Few pixels, as indirect convolutions: all numbers of pixels in a block, channels that do not fill
  // a vector, a panel or a slice, taps in chunks, windows of padding only, inputs that no output sees.
  for (std::int64_t pixels = 1; pixels <= 16; ++pixels) add_conv2d(rows, {}, {1, 1, pixels, 16}, {17, 1, 1, 16});
  add_conv2d(rows, {.padding = 1}, {2, 7, 7, 41}, {33, 3, 3, 41});
  add_conv2d(rows, {.stride = 2}, {2, 9, 8, 300}, {49, 1, 1, 300});
  add_conv2d(rows, {.padding = 2}, {1, 9, 7, 31}, {80, 5, 5, 31});
  add_conv2d(rows, {.padding = 4, .dilation = {3, 2}}, {1, 6, 5, 20}, {17, 3, 3, 20});
  add_conv2d(rows, {.stride = {2, 3}, .padding = {2, 1}}, {3, 7, 8, 18}, {20, 5, 3, 18});
  add_conv2d(rows, {.stride = 3}, {1, 8, 8, 17}, {19, 2, 2, 17});
  add_conv2d(rows, {.stride = 4, .padding = 2}, {1, 3, 2, 16}, {16, 2, 2, 16});
  add_conv2d(rows, {.stride = 1 << 22}, {1, 8, 8, 16}, {16, 1, 1, 16});
  add_conv2d(rows, {.padding = 1}, {1, 7, 7, 20}, {300, 3, 3, 20});
  add_conv2d(rows, {}, {0, 5, 4, 300}, {20, 1, 1, 300});  // no pixels
  // More pixels and a large filter.
  add_conv2d(rows, {}, {2, 12, 13, 512}, {512, 1, 1, 512});
  add_conv2d(rows, {.stride = 2, .padding = 1}, {2, 26, 26, 192}, {160, 3, 3, 192});
  add_conv2d(rows, {}, {2, 17, 16, 290}, {1000, 1, 1, 290});
  add_conv2d(rows, {}, {3, 23, 19, 20}, {300, 1, 1, 20});  // pixels in several rounds
  add_conv2d(rows, {.stride = 2}, {2, 91, 93, 40}, {33, 1, 1, 40});
  add_conv2d(rows, {}, {2, 24, 23, 17}, {24, 1, 1, 17});
  add_activated({.padding = 1, .activation = relu6}, {2, 7, 7, 290}, {40, 3, 3, 290});
}

/// The convolution of a normalised image, and its filter's gradient.
void add_normalized(Rows& rows, const Conv2dOptions& options, Activation activation, const Shape& x, const Shape& w,
                    bool bias = false) {
  const auto op = make<ops::Conv2d>(options);
  std::vector<OutputDesc> y;
  op->infer(std::vector<ValueDesc>{{DType::f32, x}, {DType::f32, w}}, y);
  const Shape c{x[3]};
  const Data scale = activation == Activation::relu6 ? Data::wide : Data::normal;
  std::vector<Input> inputs = {
      {x}, {c, scale, true}, {c, Data::normal, true}, {c, Data::normal, true}, {c, Data::positive, true}};
  inputs.push_back({y[0].shape});
  rows.push_back(
      {make<ops::NormalizedConv2dBackwardFilter>(GradientOf<Conv2dOptions>{options, w}, activation), inputs});
  inputs.back() = {w};
  if (bias) inputs.push_back({{w[0]}});
  rows.push_back({make<ops::NormalizedConv2d>(options, activation), inputs});
}

void add_normalized_rows(Rows& rows) {
  const Activation none = Activation::none, relu = Activation::relu, relu6 = Activation::relu6;
  for (const Activation activation : {none, relu, relu6}) {
    add_normalized(rows, {.stride = 2, .padding = 1}, activation, {2, 5, 6, 3}, {2, 3, 3, 3},
                   true);                                                               // normalises first
    add_normalized(rows, {.padding = 1}, activation, {3, 14, 15, 32}, {48, 3, 3, 32});  // Winograd
    add_normalized(rows, {}, activation, {3, 23, 19, 41}, {70, 1, 1, 41});              // by pixels
  }
  add_normalized(rows, {.padding = 2, .activation = relu6}, relu, {2, 19, 13, 16}, {32, 3, 3, 16}, true);
  add_normalized(rows, {.activation = relu}, relu, {1, 37, 29, 16}, {17, 1, 1, 16}, true);
  add_normalized(rows, {}, relu, {2, 24, 23, 290}, {300, 1, 1, 290});  // channels and filters in several tasks
  add_normalized(rows, {}, relu6, {3, 23, 19, 300}, {20, 1, 1, 300});
  add_normalized(rows, {.stride = 2, .padding = 1, .groups = 48}, relu6, {2, 57, 60, 48}, {48, 3, 3, 1}, true);
  add_normalized(rows, {.stride = 2, .padding = 1, .groups = 12}, relu6, {2, 57, 60, 48}, {48, 3, 3, 4}, true);
  add_normalized(rows, {.padding = {19, 2}, .groups = 17}, relu, {40, 17, 16, 17}, {17, 7, 7, 1});  // bands of images
  add_normalized(rows, {.stride = {1, 3}, .padding = {9, 0}, .dilation = 4, .groups = 35}, relu, {1, 93, 70, 35},
                 {35, 3, 3, 1});  // bands that see padding only
  add_normalized(rows, {.stride = 2, .padding = 1}, relu, {2, 26, 26, 192}, {160, 3, 3, 192});
  add_normalized(rows, {.padding = 1}, relu, {0, 5, 4, 3}, {4, 3, 3, 3});  // no image
}

void add_linear_rows(Rows& rows) {
  for (const auto& [n, c, k] : {std::tuple{1, 1, 1},
                                {3, 5, 7},
                                {4, 9, 2},
                                {0, 5, 3},
                                {8, 130, 29},
                                {20, 70, 50},
                                {37, 130, 101},
                                {100, 256, 300},
                                {1, 1030, 1000}}) {
    rows.push_back({make<ops::Linear>(), {{{n, c}}, {{k, c}}}, {0, 1}});
    rows.push_back({make<ops::Linear>(), {{{n, c}}, {{k, c}}, {{k}}}, {0, 1, 2}});
    rows.push_back({make<ops::LinearBackwardData>(), {{{n, k}}, {{k, c}}}});
    rows.push_back({make<ops::LinearBackwardFilter>(), {{{n, c}}, {{n, k}}}});
  }
  rows.push_back({make<ops::LinearBackwardData>(), {{{6, 2045}}, {{2045, 2055}}}});  // weights beyond a cache
  rows.push_back({make<ops::LinearBackwardData>(), {{{2, 3}}, {{3, 1400000}}}});     // the same with few filters
  for (const Shape& x : {Shape{1, 1}, {5, 3}, {2, 3, 4, 7}, {0, 4}, {3, 0}, {300, 7, 130}}) {
    rows.push_back({make<ops::ChannelSum>(), {{x}}});
  }
}

void add_batch_norm_rows(Rows& rows) {
  const Shape small[] = {{2, 1}, {5, 3}, {2, 3, 4, 5}, {3, 2, 2, 17}};
  const Shape large[] = {{2, 90, 91, 16}, {300, 3, 3, 67}, {130, 2, 1, 513}};
  for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
    for (const bool add : {false, true}) {
      const BatchNormOptions options{.epsilon = 1e-3, .momentum = 0.3, .activation = activation, .add = add};
      const auto add_row = [&](const Shape& x) {
        const Shape c{x[x.rank() - 1]};
        const Data data = activation == Activation::relu6 ? Data::wide : Data::normal;
        std::vector<Input> inputs = {
            {x}, {c, data, true}, {c, Data::normal, true}, {c, Data::normal, true}, {c, Data::positive, true}};
        if (add) inputs.push_back({x});
        rows.push_back({make<ops::BatchNorm>(options), inputs, add ? std::vector{0, 1, 2, 5} : std::vector{0, 1, 2}});
        if (x.size() < 1000) rows.push_back({make<ops::ShardBatchNorm>(options), inputs});  // its kernel is BatchNorm's
        rows.push_back(
            {make<ops::BatchNormInference>(options), inputs, add ? std::vector{0, 1, 2, 5} : std::vector{0, 1, 2}});
        rows.push_back({make<ops::BatchNormApply>(options), inputs});
        std::vector<Input> backward = {
            {x}, {x}, {c, Data::normal, true}, {c, Data::normal, true}, {c, Data::positive, true}};
        if (activation != Activation::none) backward.push_back({add ? x : c, data, !add});
        rows.push_back({make<ops::BatchNormBackward>(options), backward});
      };
      for (const Shape& x : small) add_row(x);
      if (activation == Activation::relu6) continue;  // for kernels it is relu with another bound
      for (const Shape& x : large) add_row(x);
    }
  }
  for (const Shape& x : {Shape{2, 1}, {5, 3}, {3, 2, 2, 17}, {2, 90, 91, 16}, {130, 2, 1, 513}, {3, 0}}) {
    const Shape c{x[-1]};
    rows.push_back(
        {make<ops::BatchNormStatistics>(1e-3, 0.3), {{x}, {c, Data::normal, true}, {c, Data::positive, true}}});
  }
  const auto channels = [](std::int64_t count) { return Input{{count}, Data::positive, true}; };
  rows.push_back(
      {make<ops::BatchNorm>(BatchNormOptions{}), {{{3, 0}}, channels(0), channels(0), channels(0), channels(0)}});
  rows.push_back(
      {make<ops::BatchNormApply>(BatchNormOptions{}), {{{0, 3}}, channels(3), channels(3), channels(3), channels(3)}});
  rows.push_back({make<ops::BatchNormInference>(BatchNormOptions{}),
                  {{{0, 3}}, channels(3), channels(3), channels(3), channels(3)}});
}

void add_pool(Rows& rows, const PoolOptions& options, const Shape& x) {
  const Shape y = ops::pooled_shape("pool", options, x);
  rows.push_back({make<ops::MaxPool2d>(options), {{x}}, {0}});
  rows.push_back({make<ops::MaxPool2dBackward>(options, x), {{y}, {y, Data::place}}});
  rows.push_back({make<ops::AvgPool2d>(options), {{x}}, {0}});
  rows.push_back({make<ops::AvgPool2dBackward>(options, x), {{y}}});
}

void add_adaptive_pool(Rows& rows, Extent2d output, const Shape& x) {
  rows.push_back({make<ops::AdaptiveAvgPool2d>(output), {{x}}, {0}});
  rows.push_back({make<ops::AdaptiveAvgPool2dBackward>(x), {{{x[0], output.h, output.w, x[3]}}}});
}

void add_pool_rows(Rows& rows) {
  add_pool(rows, {.window = 1, .stride = 1}, {1, 1, 1, 1});
  add_pool(rows, {}, {2, 4, 6, 3});
  add_pool(rows, {.window = 3, .stride = 2, .padding = 1}, {1, 7, 6, 3});
  add_pool(rows, {.window = 3, .stride = 2, .padding = 1, .count_include_pad = false}, {1, 7, 6, 3});
  add_pool(rows, {.window = 3, .stride = 1, .padding = 1}, {2, 4, 5, 2});
  add_pool(rows, {.window = 3, .stride = 2, .ceil_mode = true}, {1, 6, 8, 2});
  add_pool(rows, {.window = 3, .stride = 2, .padding = 1, .ceil_mode = true}, {1, 6, 5, 2});
  add_pool(rows, {.window = {2, 3}, .stride = {3, 1}, .padding = {1, 0}}, {1, 6, 5, 2});  // gaps between windows
  add_pool(rows, {.window = 2, .stride = 4, .count_include_pad = false}, {1, 7, 7, 2});
  // Windows larger than the padded input.
  add_pool(rows, {.window = 5, .stride = 4, .ceil_mode = true}, {2, 2, 3, 3});
  add_pool(rows, {.window = {7, 3}, .stride = {5, 2}, .padding = {1, 0}, .ceil_mode = true}, {1, 2, 2, 2});
  add_pool(rows, {.window = 4, .stride = 3, .ceil_mode = true, .count_include_pad = false}, {2, 3, 2, 2});
  add_pool(rows, {}, {0, 4, 4, 3});
  add_pool(rows, {}, {2, 4, 4, 0});
  add_pool(rows, {.window = 3, .stride = 2, .padding = 1}, {3, 19, 23, 70});
  add_adaptive_pool(rows, 1, {1, 1, 1, 1});
  add_adaptive_pool(rows, {2, 3}, {2, 4, 9, 3});
  add_adaptive_pool(rows, {3, 2}, {1, 7, 5, 2});  // windows that overlap
  add_adaptive_pool(rows, {7, 4}, {2, 1, 3, 2});  // more outputs than inputs
  add_adaptive_pool(rows, 3, {0, 4, 4, 3});
  add_adaptive_pool(rows, 7, {2, 17, 30, 131});
  for (const Shape& x : {Shape{1, 1, 1, 1}, {2, 3, 4, 5}, {0, 2, 2, 3}, {2, 3, 3, 0}, {5, 19, 18, 67}}) {
    rows.push_back({make<ops::GlobalAvgPool>(), {{x}}, {0}});
    rows.push_back({make<ops::GlobalAvgPoolBackward>(x), {{{x[0], x[3]}}}});
  }
}

void add_elementwise_rows(Rows& rows) {
  for (const Shape& x : {Shape{}, {1}, {0, 3}, {3, 5, 7}, {40001}}) {
    rows.push_back({make<ops::Relu>(), {{x}}, {0}});
    rows.push_back({make<ops::ReluBackward>(), {{x}, {x}}});
    rows.push_back({make<ops::Relu6>(), {{x, Data::wide}}, {0}});
    rows.push_back({make<ops::Relu6Backward>(), {{x}, {x, Data::wide}}});
    rows.push_back({make<ops::Scale>(-1.7), {{x}}, {0}});
    rows.push_back({make<ops::ScaleBy>(), {{x}, {{}, Data::normal, true}}, {0}});
    rows.push_back({make<ops::Sum>(), {{x}}, {0}});
    rows.push_back({make<ops::Sum>(), {{x}, {x}}, {0, 1}});
    for (const std::size_t count : {3, 4, 5}) {
      rows.push_back({make<ops::Sum>(), std::vector<Input>(count, {x}), {0, 2}});
    }
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      rows.push_back({make<ops::Cast>(dtype), {{x}}, dtype == DType::f64 ? std::vector{0} : std::vector<int>{}});
      rows.push_back({make<ops::Cast>(dtype), {{x, Data::index}}});
      rows.push_back({make<ops::Cast>(dtype), {{x, Data::place}}});
      rows.push_back({make<ops::Fill>(ValueDesc{dtype, x}, -1.7), {}});
    }
    rows.push_back({make<ops::Dropout>(0.3, 7, 2), {{x}, {{}, Data::step}}, {0}});
    rows.push_back({make<ops::Dropout>(0.3, 7, 2), {{x}, {{}, Data::step}, {{}, Data::shard}}, {0}});
    rows.push_back({make<ops::Dropout>(0.3, 7, 2, 1, 3), {{x}, {{}, Data::step}, {{}, Data::shard}}, {0}});
  }
  rows.push_back({make<ops::Dropout>(0.0, 7, 2), {{{5}}, {{}, Data::step}}, {0}});
}

void add_weighted_sum_rows(Rows& rows) {
  for (const Shape& x : {Shape{}, {1}, {0, 3}, {3, 5, 7}, {3, 13337}}) {
    for (const std::int64_t count : {1, 2, 5}) {
      std::vector<Input> inputs(static_cast<std::size_t>(count) + 1, {x});
      inputs[0] = {{count}};
      const std::vector<int> differentiable = count == 1 ? std::vector{0, 1} : std::vector{0, 1, 2};
      rows.push_back({make<ops::WeightedSum>(), inputs, differentiable});
      inputs.insert(inputs.begin(), {x});
      rows.push_back({make<ops::WeightedSumBackward>(), inputs});
    }
  }
}

/// Collectives of one rank: there is no other to communicate with (tests/train/parallel/parallel_test.cpp).
void add_collective_rows(Rows& rows) {
  const auto all_reduce = [](std::int64_t shards, bool exact, std::vector<std::int64_t> divisors) {
    return make<ops::AllReduce>(ops::MeshRanks{}, shards, exact, std::move(divisors));
  };
  const auto wide = [](const Shape& shape) { return Input{shape, Data::normal, true}; };
  rows.push_back({all_reduce(1, false, {1}), {wide({5})}});
  rows.push_back({all_reduce(1, false, {1, 1, 1}), {wide({0}), wide({2, 3}), wide({40, 33})}});
  rows.push_back({all_reduce(1, true, {1}), {wide({})}});
  const Input matrix = wide({2, 2}), scalar = wide({});
  rows.push_back({all_reduce(3, true, {1, 3}), {matrix, matrix, matrix, scalar, scalar, scalar}});
  rows.push_back({all_reduce(12, true, {12}), std::vector<Input>(12, wide({70, 33}))});
  rows.push_back({make<ops::AllReduce>(ops::MeshRanks{}, 1, false, std::vector<std::int64_t>{1}, 3, 2), {wide({7})}});
  rows.push_back({make<ops::AllReduce>(ops::MeshRanks{}, 3, true, std::vector<std::int64_t>{3}, 40, 1000),
                  std::vector<Input>(3, wide({40, 33}))});
  const auto reduce_scatter = [](std::int64_t shards, bool exact, std::vector<std::int64_t> divisors) {
    return make<ops::ReduceScatter>(ops::MeshRanks{}, shards, exact, std::move(divisors));
  };
  rows.push_back({reduce_scatter(1, false, {1, 1, 1}), {wide({0}), wide({2, 3}), wide({40, 33})}});
  rows.push_back({reduce_scatter(3, true, {1, 3}), {matrix, matrix, matrix, scalar, scalar, scalar}});
  rows.push_back({reduce_scatter(12, true, {12}), std::vector<Input>(12, wide({70, 33}))});
  rows.push_back({make<ops::OwnPiece>(), {{{2, 3}}}});
  rows.push_back({make<ops::OwnPiece>(), {{{0, 3}}}});
  rows.push_back({make<ops::GatherPieces>(ops::MeshRanks{}, std::vector<std::int64_t>{5}), {{{5}}}});
  rows.push_back(
      {make<ops::GatherPieces>(ops::MeshRanks{}, std::vector<std::int64_t>{1, 0, 700}), {{{1}}, {{0}}, {{700}}}});
  rows.push_back({make<ops::FromNeighbour>(ops::MeshRanks{}, -1), {{{2, 3}}, {{2, 3}}}});
  rows.push_back({make<ops::FromNeighbour>(ops::MeshRanks{}, 1), {{{0, 3}}, {{0, 3}}}});
  rows.push_back({make<ops::AllGather>(), {{{2, 3}}}});
  rows.push_back({make<ops::AllGather>(), {{{0, 3}}, {{0, 3}}}});
  rows.push_back({make<ops::AllGather>(), {{{300, 33}}, {{300, 33}}, {{300, 33}}}});
  const auto all_to_all = [](std::int64_t from, std::int64_t to) {
    return make<ops::AllToAll>(ops::MeshRanks{}, from, to);
  };
  rows.push_back({all_to_all(0, 1), {{{2, 3}}}});
  rows.push_back({all_to_all(1, 0), {{{2, 0}}, {{2, 0}}}});
  rows.push_back({all_to_all(1, 2), {{{2, 3, 4}}, {{2, 3, 4}}}});
  rows.push_back({all_to_all(2, 0), {{{6, 50, 33}}, {{6, 50, 33}}, {{6, 50, 33}}}});
  rows.push_back({make<ops::ShardNumber>(1, 3, ops::MeshRanks{}), {}});
  rows.push_back({make<ops::ShardNumber>(2, 3, ops::MeshRanks{}), {{{}, Data::shard}}});
  rows.push_back({make<ops::ShardRows>(2), {{{2}}, {{}, Data::shard}}});
  rows.push_back({make<ops::ShardRows>(3), {{{0, 2}}, {{}, Data::shard}}});
  rows.push_back({make<ops::ShardRows>(3), {{{6, 5, 700}}, {{}, Data::shard}}});
  rows.push_back({make<ops::Assign>(), {{{}}, {{}}}});
  rows.push_back({make<ops::Assign>(), {{{3, 2}}, {{3, 2}}, {{0}}, {{0}}, {{70, 33}}, {{70, 33}}}});
}

void add_concat_rows(Rows& rows) {
  rows.push_back({make<ops::Concat>(), {{{5}}}, {0}});
  rows.push_back({make<ops::Concat>(), {{{2, 3, 4}}, {{2, 3, 1}}, {{2, 3, 0}}, {{2, 3, 7}}}, {0, 1, 3}});
  rows.push_back({make<ops::Concat>(), {{{0, 3}}, {{0, 2}}}});
  rows.push_back({make<ops::Concat>(1), {{{2, 3, 4}}, {{2, 1, 4}}, {{2, 5, 4}}}, {0, 1, 2}});
  rows.push_back({make<ops::Concat>(), {{{700, 65}}, {{700, 3}}}});
  rows.push_back({make<ops::ChannelSlice>(0, 3), {{{3}}}});
  rows.push_back({make<ops::ChannelSlice>(2, 4), {{{2, 3, 7}}}});
  rows.push_back({make<ops::ChannelSlice>(2, 0), {{{2, 3, 7}}}});
  rows.push_back({make<ops::ChannelSlice>(5, 61), {{{900, 67}}}});
  const auto slice_sum = [](std::vector<std::int64_t> begins, std::int64_t count) {
    return make<ops::SliceSum>(std::move(begins), count);
  };
  rows.push_back({slice_sum({0}, 3), {{{3}}}});
  rows.push_back({slice_sum({2, 0}, 5), {{{2, 3, 7}}, {{2, 3, 5}}}});
  rows.push_back({slice_sum({0, 1, 2, 3, 1, 0}, 3), std::vector<Input>(6, {{3, 2, 6}})});
  rows.push_back({slice_sum({0, 0}, 0), {{{2, 3}}, {{2, 4}}}});
  rows.push_back({slice_sum({0, 0, 1}, 2), std::vector<Input>(3, {{0, 3}})});
  rows.push_back(
      {slice_sum({1, 30, 0, 16, 3}, 33), {{{2500, 34}}, {{2500, 63}}, {{2500, 33}}, {{2500, 50}}, {{2500, 99}}}});
}

void add_cross_entropy_rows(Rows& rows) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const auto& [n, k] : {std::pair{1, 1}, {5, 3}, {130, 101}}) {
      const Shape logits{n, k}, labels{n};
      rows.push_back({make<ops::CrossEntropy>(smoothing), {{logits, Data::normal, true}, {labels, Data::label}}, {0}});
      rows.push_back({make<ops::CrossEntropy>(smoothing),  // targets need not sum to 1
                      {{logits, Data::normal, true}, {logits, Data::positive, true}},
                      {0}});
    }
    rows.push_back({make<ops::CrossEntropyBackward>(smoothing),
                    {{{}, Data::normal, true}, {{70, 101}, Data::normal, true}, {{70}, Data::label}}});
    rows.push_back({make<ops::CrossEntropyBackward>(smoothing),
                    {{{}, Data::normal, true}, {{70, 101}, Data::normal, true}, {{70, 101}, Data::positive, true}}});
  }
  const Input no_logits{{0, 7}, Data::normal, true}, no_labels{{0}, Data::label};
  rows.push_back({make<ops::CrossEntropyBackward>(0.0), {{{}, Data::normal, true}, no_logits, no_labels}});
  rows.push_back({make<ops::Accuracy>(1), {{{50, 7}, Data::normal, true}, {{50}, Data::label}}});
  rows.push_back({make<ops::Accuracy>(3), {{{50, 7}, Data::normal, true}, {{50}, Data::label}}});
  rows.push_back({make<ops::Accuracy>(1), {{{8300, 2}, Data::normal, true}, {{8300}, Data::label}}});  // several blocks
  rows.push_back({make<ops::Accuracy>(9), {{{1, 1}, Data::normal, true}, {{1}, Data::label}}});
}

void add_optimizer_rows(Rows& rows) {
  const std::vector<Shape> parameters = {{3, 5}, {}, {0, 4}, {20000}, {7}};
  // A letter for each tensor of a parameter: p, its gradient, its moments m and v, its copy. Capitals are of the row's
  // type, the others of the type that it is computed in.
  const auto with_parameters = [&](std::vector<Input> inputs, std::string_view tensors) {
    for (const Shape& p : parameters) {
      for (const char tensor : tensors) {
        inputs.push_back({p, tensor == 'v' ? Data::positive : Data::normal, tensor >= 'a'});
      }
    }
    return inputs;
  };
  const Input rate{{}, Data::rate}, scale{{}, Data::scale}, step{{}, Data::step};
  for (const bool decoupled : {false, true}) {
    for (const bool scaled : {false, true}) {
      for (const auto& [momentum, nesterov] : {std::pair{0.0, false}, {0.9, false}, {0.9, true}}) {
        SgdOptions options{
            .momentum = momentum, .weight_decay = 0.01, .nesterov = nesterov, .decoupled = decoupled, .scaled = scaled};
        std::vector<Input> scalars{rate};
        if (scaled) scalars.push_back(rate);
        const bool moments = momentum != 0;
        rows.push_back({make<ops::SgdUpdate>(options), with_parameters(scalars, moments ? "pgm" : "pg")});
        options.rounded = true;
        rows.push_back({make<ops::SgdUpdate>(options), with_parameters(scalars, moments ? "pGmC" : "pGC")});
      }
      std::vector<Input> scalars{rate, step};
      if (scaled) scalars.push_back(rate);
      AdamOptions options{.weight_decay = 0.01, .decoupled = decoupled, .scaled = scaled};
      rows.push_back({make<ops::AdamUpdate>(options), with_parameters(scalars, "pgmv")});
      options.rounded = true;
      rows.push_back({make<ops::AdamUpdate>(options), with_parameters(scalars, "pGmvC")});
    }
  }
  rows.push_back({make<ops::LossScaleUpdate>(LossScaleOptions{}), with_parameters({scale, step, step}, "g")});
  rows.push_back({make<ops::LossScaleUpdate>(LossScaleOptions{}), with_parameters({scale, step, step}, "gG")});
  for (const double max_norm : {1.0, 1000.0}) {
    rows.push_back({make<ops::ClipFactor>(ClipOptions{.max_norm = max_norm}), with_parameters({}, "g")});
    rows.push_back(
        {make<ops::ClipFactor>(ClipOptions{.max_norm = max_norm, .scaled = true}), with_parameters({rate}, "gG")});
  }
  rows.push_back({make<ops::ClipFactor>(ClipOptions{.max_norm = 1}), {{{70001}}}});
  rows.push_back({make<ops::Blend>(), with_parameters({{{2}, Data::rate}}, "pg")});
  rows.push_back({make<ops::Blend>(), with_parameters({{{2}, Data::rate}}, "pG")});
}

/// Whether an input is of the row's floating type.
bool is_drawn(Data data) { return data == Data::normal || data == Data::wide || data == Data::positive; }

}  // namespace

const std::vector<OpRow>& op_table() {
  static const Rows rows = [] {
    Rows list;
    add_conv2d_rows(list);
    add_linear_rows(list);
    add_normalized_rows(list);
    add_batch_norm_rows(list);
    add_pool_rows(list);
    add_elementwise_rows(list);
    add_expression_rows(list);
    add_reduce_rows(list);
    add_softmax_rows(list);
    add_weighted_sum_rows(list);
    add_collective_rows(list);
    add_concat_rows(list);
    add_strided_copy_rows(list);
    add_index_rows(list);
    add_matmul_rows(list);
    add_interpolate_rows(list);
    add_group_norm_rows(list);
    add_cross_entropy_rows(list);
    add_optimizer_rows(list);
    return list;
  }();
  return rows;
}

std::map<const Op*, OpMaker>& makers() {
  static std::map<const Op*, OpMaker> makers;
  return makers;
}

std::vector<OpPtr> neighbours(const OpRow& row) { return makers().at(row.op.get()).neighbours(); }
OpPtr copy_of_op(const OpRow& row) { return makers().at(row.op.get()).copy(); }

namespace {

/// Drawn once: that takes longer than most kernels.
const std::vector<float>& normal_numbers() {
  static const std::vector<float> numbers = [] {
    std::vector<float> list(300'007);
    Generator random(42);
    for (float& number : list) number = random.normal();
    return list;
  }();
  return numbers;
}

}  // namespace

std::vector<Array> make_inputs(const OpRow& row, DType dtype) {
  std::vector<Array> arrays;
  Generator random(42);
  const std::vector<float>& normals = normal_numbers();
  auto next = normals.begin();
  const auto normal = [&] {
    if (next == normals.end()) next = normals.begin();
    return *next++;
  };
  const auto fill = [&](const Shape& shape, auto draw) {
    std::vector<decltype(draw())> elements(static_cast<std::size_t>(shape.size()));
    for (auto& element : elements) element = draw();
    return Array::from(elements, shape);
  };
  const auto floats = [&](const Shape& shape, auto draw) {
    return dtype == DType::f64 ? fill(shape, [&] { return static_cast<double>(draw()); }) : fill(shape, draw);
  };
  for (const auto& [shape, data, wide] : row.inputs) {
    switch (data) {
      case Data::normal: arrays.push_back(floats(shape, normal)); break;
      case Data::wide: arrays.push_back(floats(shape, [&] { return 6 * normal(); })); break;
      case Data::positive: arrays.push_back(floats(shape, [&] { return 0.5f + random.uniform(); })); break;
      case Data::label: {
        const Shape& logits = row.inputs[row.inputs[0].shape.rank() == 2 ? 0 : 1].shape;
        const auto classes = static_cast<std::uint32_t>(logits[1]);
        arrays.push_back(fill(shape, [&] { return static_cast<std::int32_t>(random.below(classes)); }));
        break;
      }
      case Data::shard: arrays.push_back(Array::scalar<std::int32_t>(1)); break;
      case Data::step: arrays.push_back(Array::scalar<std::int32_t>(3)); break;
      case Data::index:
        arrays.push_back(fill(shape, [&] { return static_cast<std::int32_t>(random.below(3)); }));
        break;
      case Data::place:
        arrays.push_back(fill(shape, [&] { return static_cast<std::uint8_t>(random.below(4)); }));
        break;
      case Data::rate: arrays.push_back(fill(shape, [] { return 0.1; })); break;
      case Data::scale: arrays.push_back(fill(shape, [] { return 0.125f; })); break;
    }
    if (is_drawn(data) && !wide) arrays.back() = cast(arrays.back(), dtype);
  }
  return arrays;
}

bool has_low_precision(const OpRow& row) {
  return std::ranges::any_of(row.inputs, [](const Input& input) { return is_drawn(input.data) && !input.wide; });
}

Array cast(const Array& array, DType dtype) {
  return array.dtype() == dtype ? array : run_op(ops::Cast(dtype), {array})[0];
}

std::string describe(const OpRow& row) {
  std::string text(row.op->name());
  for (const Input& input : row.inputs) text += message(' ', input.shape);
  return text;
}

}  // namespace braid::testing
