#include "ops/pool/pool.h"

#include <limits>

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"

namespace braid::ops {

namespace {

std::int64_t pooled_extent(std::int64_t x, std::int64_t window, std::int64_t stride, std::int64_t padding,
                           bool ceil_mode) {
  const std::int64_t room = x + 2 * padding - window + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  std::int64_t extent = room / stride + 1;
  if (ceil_mode && (extent - 1) * stride >= x + padding) --extent;  // a window may not start in the far padding
  return extent;
}

void check_image(std::string_view op, std::span<const ValueDesc> inputs) {
  check_inputs(op, inputs, 1);
  check_rank(op, "an input", inputs[0], 4, "[N,H,W,C]");
  check_floating(op, "an input", inputs[0]);
}

}  // namespace

Shape pooled_shape(std::string_view op, const PoolOptions& options, const Shape& x) {
  const Extent2d w = options.window, p = options.padding;
  BRAID_CHECK(w.h >= 1 && w.w >= 1 && options.stride.h >= 1 && options.stride.w >= 1, ShapeError, "[", op,
              "] expected window and stride of at least 1, got ", w, " and ", options.stride);
  BRAID_CHECK(p.h >= 0 && p.w >= 0 && p.h <= w.h / 2 && p.w <= w.w / 2, ShapeError, "[", op,
              "] expected padding between 0 and half the window ", w, ", got ", p);
  check_option(op, "a window", w);
  check_option(op, "a stride", options.stride);
  BRAID_CHECK(x[1] >= 1 && x[2] >= 1, ShapeError, "[", op, "] expected an image of at least one pixel, got ", x);
  const Shape y{x[0], pooled_extent(x[1], w.h, options.stride.h, p.h, options.ceil_mode),
                pooled_extent(x[2], w.w, options.stride.w, p.w, options.ceil_mode), x[3]};
  BRAID_CHECK(y[1] > 0 && y[2] > 0, ShapeError, "[", op, "] the window ", w, " does not fit into the input ", x,
              " with padding ", p, options.ceil_mode ? ", not even with its end outside, by less than the stride" : "");
  return y;
}

namespace {

/// x and y, or their gradients, in the order of the notation.
OpAxes pool_axes(std::string notation, const PoolOptions& options, double fill) {
  const auto& [window, stride, padding, ceil_mode, count_include_pad] = options;
  return {.notation = std::move(notation),
          .windows = {{'h', window.h, stride.h, padding.h}, {'w', window.w, stride.w, padding.w}},
          .fill = fill};
}

/// Along the axes where all windows count equally many elements.
OpAxes mean_axes(bool backward, const PoolOptions& options, const Shape& x, const Shape& y) {
  const auto whole = [&](int axis, std::int64_t window, std::int64_t stride, std::int64_t padding) {
    const std::int64_t end = (y[axis] - 1) * stride + window - padding;
    return options.count_include_pad ? end <= x[axis] + padding : padding == 0 && end <= x[axis];
  };
  const bool h = whole(1, options.window.h, options.stride.h, options.padding.h),
             w = whole(2, options.window.w, options.stride.w, options.padding.w);
  const std::string of_x{'n', h ? 'H' : '_', w ? 'W' : '_', 'c'}, of_y{'n', h ? 'h' : '_', w ? 'w' : '_', 'c'};
  return pool_axes(backward ? of_y + "->" + of_x : of_x + "->" + of_y, options, 0);
}

}  // namespace

OpAxes MaxPool2d::axes(const NodeValues&) const {
  return pool_axes("nHWc->nhwc", attributes_, -std::numeric_limits<double>::infinity());
}

OpAxes MaxPool2dBackward::axes(const NodeValues&) const { return pool_axes("nhwc->nHWc", attributes_.options, 0); }

OpAxes AvgPool2d::axes(const NodeValues& node) const {
  return mean_axes(false, attributes_, node.inputs[0].shape, node.outputs[0].shape);
}

OpAxes AvgPool2dBackward::axes(const NodeValues& node) const {
  return mean_axes(true, attributes_.options, node.outputs[0].shape, node.inputs[0].shape);
}

void MaxPool2d::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_image(name(), inputs);
  const Shape y = pooled_shape(name(), attributes_, inputs[0].shape);
  BRAID_CHECK(attributes_.window.h * attributes_.window.w <= 256, ShapeError,
              "[max_pool2d] expected a window of at most 256 places, got ", attributes_.window);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y});
  outputs.push_back({.dtype = DType::u8, .shape = y});
}

void MaxPool2d::gradient(GradientContext& context) const {
  const Shape x = context.desc(context.input(0)).shape;
  set_gradient<MaxPool2dBackward>(context, 0, {context.output_gradient(0), context.output(1)}, attributes(), x);
}

void MaxPool2dBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  const auto& [options, x] = attributes();
  const Shape y = pooled_shape(name(), options, x);
  check_shape(name(), "an output gradient", inputs[0], y);
  check_value(name(), "places of maxima", inputs[1], {DType::u8, y});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

void AvgPool2d::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_image(name(), inputs);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = pooled_shape(name(), attributes_, inputs[0].shape)});
}

void AvgPool2d::gradient(GradientContext& context) const {
  const Shape x = context.desc(context.input(0)).shape;
  set_gradient<AvgPool2dBackward>(context, 0, {context.output_gradient(0)}, attributes(), x);
}

void AvgPool2dBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const auto& [options, x] = attributes();
  check_shape(name(), "an output gradient", inputs[0], pooled_shape(name(), options, x));
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Extent2d output) : OpWith(output) {
  BRAID_CHECK(output.h >= 1 && output.w >= 1, ShapeError,
              "[adaptive_avg_pool2d] expected an output of at least one pixel, got ", output);
  check_option("adaptive_avg_pool2d", "an output", output);
}

void AdaptiveAvgPool2d::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_image(name(), inputs);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x[1] * x[2] > 0, ShapeError, "[adaptive_avg_pool2d] expected an image of at least one pixel, got ", x);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {x[0], attributes_.output.h, attributes_.output.w, x[3]}});
}

void AdaptiveAvgPool2d::gradient(GradientContext& context) const {
  set_gradient<AdaptiveAvgPool2dBackward>(context, 0, {context.output_gradient(0)},
                                          context.desc(context.input(0)).shape);
}

void AdaptiveAvgPool2dBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape &x = attributes_.shape, &dy = inputs[0].shape;
  check_rank(name(), "an output gradient", inputs[0], 4, "[N,P,Q,C]");
  check_shape(name(), "an output gradient", inputs[0], {x[0], dy[1], dy[2], x[3]});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

void GlobalAvgPool::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_image(name(), inputs);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x[1] * x[2] > 0, ShapeError, "[global_avg_pool] expected an image of at least one pixel, got ", x);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {x[0], x[3]}});
}

void GlobalAvgPool::gradient(GradientContext& context) const {
  set_gradient<GlobalAvgPoolBackward>(context, 0, {context.output_gradient(0)}, context.desc(context.input(0)).shape);
}

void GlobalAvgPoolBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape& x = attributes_.shape;
  check_shape(name(), "an output gradient", inputs[0], {x[0], x[3]});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

// The gradient of a mean's gradient is the mean.

void AvgPool2dBackward::gradient(GradientContext& context) const {
  set_gradient<AvgPool2d>(context, 0, {context.output_gradient(0)}, attributes_.options);
}

void AdaptiveAvgPool2dBackward::gradient(GradientContext& context) const {
  const Shape y = context.desc(context.input(0)).shape;
  set_gradient<AdaptiveAvgPool2d>(context, 0, {context.output_gradient(0)}, Extent2d(y[1], y[2]));
}

void GlobalAvgPoolBackward::gradient(GradientContext& context) const {
  set_gradient<GlobalAvgPool>(context, 0, {context.output_gradient(0)});
}

}  // namespace braid::ops
