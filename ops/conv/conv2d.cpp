#include "ops/conv/conv2d.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/linear.h"

namespace braid::ops {

namespace {

/// Shape of the output of a convolution, with every check that the three nodes share.
Shape output_shape(std::string_view op, const Conv2dOptions& options, const Shape& x, const Shape& w) {
  BRAID_CHECK(w[3] * options.groups == x[3], ShapeError, "[", op, "] expected ", w[3] * options.groups,
              " input channels (filter is ", w, ", groups ", options.groups, "), got ", x[3], " (input is ", x, ")");
  BRAID_CHECK(w[0] % options.groups == 0, ShapeError, "[", op, "] expected output channels divisible by ",
              options.groups, " groups, got ", w[0], " (filter is ", w, ")");
  const std::int64_t reach_h = options.dilation.h * (w[1] - 1) + 1;
  const std::int64_t reach_w = options.dilation.w * (w[2] - 1) + 1;
  const std::int64_t padded_h = x[1] + 2 * options.padding.h;
  const std::int64_t padded_w = x[2] + 2 * options.padding.w;
  BRAID_CHECK(w[1] > 0 && w[2] > 0 && padded_h >= reach_h && padded_w >= reach_w, ShapeError, "[", op, "] the filter ",
              w, " with dilation ", options.dilation, " does not fit into the padded input of ", padded_h, "x",
              padded_w, " (input is ", x, ")");
  return {x[0], (padded_h - reach_h) / options.stride.h + 1, (padded_w - reach_w) / options.stride.w + 1, w[0]};
}

Conv2dOptions without_activation(Conv2dOptions options) {
  options.activation = Activation::none;
  return options;
}

/// One multiply-add per output element, filter position and input channel of the group, whichever direction. On a GPU
/// each group is a product [rows,depth]·[depth,columns].
Work conv_work(const Shape& y, const Shape& w, std::int64_t groups, std::int64_t rows, std::int64_t columns,
               std::int64_t depth, const Op& op, std::span<const ValueDesc> inputs,
               std::span<const ValueDesc> outputs) {
  Work work = op.Op::work(inputs, outputs);
  work.products = static_cast<double>(groups);
  work.rows = static_cast<double>(rows);
  work.columns = static_cast<double>(columns);
  work.depth = static_cast<double>(depth);
  work.flops = 2.0 * static_cast<double>(y.size()) * static_cast<double>(w[1] * w[2] * w[3]);
  return work;
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options) : OpWith(options) {
  BRAID_CHECK(
      options.stride.h >= 1 && options.stride.w >= 1 && options.dilation.h >= 1 && options.dilation.w >= 1 &&
          options.padding.h >= 0 && options.padding.w >= 0 && options.groups >= 1,
      ShapeError, "[conv2d] expected stride, dilation and groups of at least 1 and padding of at least 0, got stride ",
      options.stride, ", dilation ", options.dilation, ", groups ", options.groups, ", padding ", options.padding);
  check_option("conv2d", "a stride", options.stride);
  check_option("conv2d", "a dilation", options.dilation);
  check_option("conv2d", "a padding", options.padding);
  check_option("conv2d", "a number of groups", options.groups);
}

void Conv2d::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  if (inputs.size() != 3) check_inputs(name(), inputs, 2);
  check_rank(name(), "an input", inputs[0], 4, "[N,H,W,C]");
  check_rank(name(), "a filter", inputs[1], 4, "[K,R,S,C/groups]");
  check_floating(name(), "an input", inputs[0]);
  check_dtype(name(), "a filter", inputs[1], inputs[0].dtype);
  if (inputs.size() == 3) check_value(name(), "a bias", inputs[2], {inputs[0].dtype, {inputs[1].shape[0]}});
  outputs.push_back(
      {.dtype = inputs[0].dtype, .shape = output_shape(name(), attributes_, inputs[0].shape, inputs[1].shape)});
}

Work Conv2d::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const Shape &w = inputs[1].shape, &y = outputs[0].shape;
  const std::int64_t groups = attributes_.groups;
  return conv_work(y, w, groups, y[0] * y[1] * y[2], w[0] / groups, w[1] * w[2] * w[3], *this, inputs, outputs);
}

void Conv2d::gradient(GradientContext& context) const {
  const ValueId x = context.input(0), w = context.input(1);
  const ValueId dy = before_activation(context, attributes_.activation, context.output_gradient(0), context.output(0));
  const Conv2dOptions linear = without_activation(attributes());
  // The bias first, while dy is in the caches; then backward-data, which the rest of the backward pass waits for.
  if (context.input_count() == 3) set_gradient<ChannelSum>(context, 2, {dy});
  set_gradient<Conv2dBackwardData>(context, 0, {dy, w}, linear, context.desc(x).shape);
  set_gradient<Conv2dBackwardFilter>(context, 1, {x, dy}, linear, context.desc(w).shape);
}

void Conv2dBackwardData::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_rank(name(), "a filter", inputs[1], 4, "[K,R,S,C/groups]");
  check_dtype(name(), "a filter", inputs[1], inputs[0].dtype);
  const auto& [options, x] = attributes();
  check_shape(name(), "an output gradient", inputs[0], output_shape(name(), options, x, inputs[1].shape));
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

Work Conv2dBackwardData::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const Shape &w = inputs[1].shape, &y = inputs[0].shape;
  const auto& [options, x] = attributes();
  const std::int64_t k = w[0] / options.groups;
  return conv_work(y, w, options.groups, x[0] * x[1] * x[2], w[3], w[1] * w[2] * k, *this, inputs, outputs);
}

/// dx depends on dy as an input depends on the output of the convolution, so the two gradients exchange roles.
void Conv2dBackwardData::gradient(GradientContext& context) const {
  const Conv2dOptions linear = without_activation(attributes_.options);
  const ValueId dy = context.input(0), w = context.input(1), ddx = context.output_gradient(0);
  set_gradient<Conv2d>(context, 0, {ddx, w}, linear);
  set_gradient<Conv2dBackwardFilter>(context, 1, {ddx, dy}, linear, context.desc(w).shape);
}

void Conv2dBackwardFilter::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_rank(name(), "an input", inputs[0], 4, "[N,H,W,C]");
  const auto& [options, w] = attributes();
  check_value(name(), "an output gradient", inputs[1],
              {inputs[0].dtype, output_shape(name(), options, inputs[0].shape, w)});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = w});
}

void Conv2dBackwardFilter::gradient(GradientContext& context) const {
  const Conv2dOptions linear = without_activation(attributes_.options);
  const ValueId x = context.input(0), dy = context.input(1), ddw = context.output_gradient(0);
  set_gradient<Conv2dBackwardData>(context, 0, {dy, ddw}, linear, context.desc(x).shape);
  set_gradient<Conv2d>(context, 1, {x, ddw}, linear);
}

Work Conv2dBackwardFilter::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const Shape& y = inputs[1].shape;
  const auto& [options, w] = attributes();
  Work work = conv_work(y, w, options.groups, w[0] / options.groups, w[1] * w[2] * w[3], y[0] * y[1] * y[2], *this,
                        inputs, outputs);
  work.splits = true;
  return work;
}

namespace {

/// Axes with the windows of a convolution by a filter [K,R,S,...].
OpAxes conv_axes(std::string_view notation, const Conv2dOptions& options, const Shape& filter) {
  const auto& [stride, padding, dilation, groups, activation] = options;
  return {.notation = std::string(notation),
          .windows = {{'h', dilation.h * (filter[1] - 1) + 1, stride.h, padding.h},
                      {'w', dilation.w * (filter[2] - 1) + 1, stride.w, padding.w}}};
}

}  // namespace

// Groups keep channels together, and every summand would have the bias and the activation.
OpAxes Conv2d::axes(const NodeValues& node) const {
  const bool is_linear = node.inputs.size() == 2 && attributes_.activation == Activation::none;
  const bool has_groups = attributes_.groups != 1;
  const std::string_view notation = has_groups ? "nHW_,...->nhw_" : is_linear ? "nHWc,k__c->nhwk" : "nHW_,k___,k->nhwk";
  return conv_axes(notation, attributes_, node.inputs[1].shape);
}

OpAxes Conv2dBackwardData::axes(const NodeValues& node) const {
  const auto& options = attributes_.options;
  return conv_axes(options.groups != 1 ? "nhw_,...->nHW_" : "nhwk,k__c->nHWc", options, node.inputs[1].shape);
}

OpAxes Conv2dBackwardFilter::axes(const NodeValues& node) const {
  const auto& options = attributes_.options;
  return conv_axes(options.groups != 1 ? "nHW_,nhw_->..." : "nHWc,nhwk->k__c", options, node.outputs[0].shape);
}

}  // namespace braid::ops
