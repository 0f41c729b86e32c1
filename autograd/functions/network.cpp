#include "autograd/functions/network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/functions/apply.h"
#include "autograd/functions/common.h"
#include "autograd/functions/elementwise.h"
#include "autograd/functions/layout.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"
#include "ops/norm/group_norm.h"
#include "ops/pool/resampling.h"

namespace braid {

Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options) {
  return apply_op(std::make_shared<ops::Conv2d>(options), {x, w});
}

Tensor conv2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dOptions& options) {
  return apply_op(std::make_shared<ops::Conv2d>(options), {x, w, bias});
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const ConvTranspose2dOptions& options) {
  const auto& [stride, padding, output_padding, dilation, groups] = options;
  const Shape &in = x.shape(), &filter = w.shape();
  BRAID_CHECK(in.rank() == 4 && filter.rank() == 4, ShapeError,
              "[conv_transpose2d] expected an input of shape [N,H,W,C] and a filter of shape [C,R,S,K/groups], got ",
              in, " and ", filter);
  BRAID_CHECK(in[3] == filter[0], ShapeError, "[conv_transpose2d] expected ", filter[0], " input channels (filter is ",
              filter, "), got ", in[3], " (input is ", in, ")");
  BRAID_CHECK(
      output_padding.h >= 0 && output_padding.w >= 0 && output_padding.h < stride.h && output_padding.w < stride.w,
      ShapeError, "[conv_transpose2d] expected an output padding between 0 and the stride ", stride, " less 1, got ",
      output_padding);
  const auto extent = [&](int axis, std::int64_t Extent2d::*side) {
    return (in[axis] - 1) * options.stride.*side - 2 * options.padding.*side +
           options.dilation.*side * (filter[axis] - 1) + options.output_padding.*side + 1;
  };
  const ops::Conv2d conv({.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
  const std::int64_t h = extent(1, &Extent2d::h), w_extent = extent(2, &Extent2d::w);
  BRAID_CHECK(h >= 1 && w_extent >= 1, ShapeError, "[conv_transpose2d] the padding ", padding,
              " leaves no pixel of the output (input is ", in, ", filter ", filter, ")");
  const Shape y{in[0], h, w_extent, filter[3] * groups};
  return called("conv_transpose2d", [&] {
    return apply_op(std::make_shared<ops::Conv2dBackwardData>(conv.attributes(), y), {x, w});
  });
}

Tensor conv_transpose2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  const ConvTranspose2dOptions& options) {
  const Tensor y = conv_transpose2d(x, w, options);
  BRAID_CHECK(bias.shape() == Shape{y.shape()[3]}, ShapeError, "[conv_transpose2d] expected a bias of shape [",
              y.shape()[3], "], got ", bias.shape());
  return called("conv_transpose2d", [&] { return add(y, bias); });
}

namespace {

/// Every row of x, whatever its other axes are.
Tensor linear_rows(const Tensor& x, std::vector<Tensor> inputs) {
  std::vector<std::int64_t> extents = extents_of(x.shape());
  if (extents.size() == 2 || extents.empty()) return apply_op(std::make_shared<ops::Linear>(), inputs);
  const Shape w = inputs[1].shape();
  BRAID_CHECK(w.rank() != 2 || w[1] == extents.back(), ShapeError, "[linear] expected ", w[1],
              " input features (weight is ", w, "), got ", extents.back(), " (input is ", x.shape(), ")");
  inputs[0] = reshape(x, {x.shape().size_between(0, x.shape().rank() - 1), extents.back()});
  const Tensor rows = apply_op(std::make_shared<ops::Linear>(), inputs);
  extents.back() = rows.shape()[1];
  return reshape(rows, Shape(extents));
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w) { return linear_rows(x, {x, w}); }

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) { return linear_rows(x, {x, w, bias}); }

namespace {

/// Written with means over the samples, which become means over all ranks where steps are divided. The gradients do
/// so by themselves.
Tensor sync_batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                       const Tensor& residual) {
  const DType statistics = computed_in(x.dtype());
  const std::int64_t count = x.shape().size() / std::max<std::int64_t>(1, parameters.scale.shape().size());
  BRAID_CHECK(count > 1, ShapeError,
              "[batch_norm] expected more than one element per channel in training, got an input of shape ", x.shape());
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.shape().rank() - 1));
  std::iota(axes.begin(), axes.end(), 0);
  const auto over_samples = std::make_shared<ops::Reduce>(ops::ReduceKind::mean, Shape(axes), false);
  const Tensor wide = cast(x, statistics), batch_mean = apply_op(over_samples, {wide}), centred = wide - batch_mean;
  const Tensor batch_variance = apply_op(over_samples, {square(centred)});
  const auto update = [&](Parameter& running, const Tensor& value) {
    assign(running, (1 - options.momentum) * Tensor(running) + options.momentum * detach(value));
  };
  update(parameters.running_mean, batch_mean);
  update(parameters.running_variance, batch_variance * (static_cast<double>(count) / static_cast<double>(count - 1)));
  const Tensor factor = Tensor(parameters.scale) / sqrt(batch_variance + options.epsilon);
  Tensor y = cast(centred * factor + Tensor(parameters.shift), x.dtype());
  if (residual.defined()) y = y + residual;
  if (options.activation == Activation::relu) return relu(y);
  return options.activation == Activation::relu6 ? relu6(y) : y;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                  bool training, const Tensor& residual) {
  BRAID_CHECK(options.add == residual.defined(), ShapeError,
              "[batch_norm] a residual must be given exactly if options.add is set");
  training = training && x.shape().size() > 0;  // an empty batch has no statistics
  const ParallelOptions& parallel = x.tape().context().parallel();
  // A shard that has parts of images has no statistics of samples.
  const bool synchronises = parallel.sync_batch_norm && parallel.divides();
  if (training && (synchronises || x.tape().divides_images(x.id()))) {
    return sync_batch_norm(x, parameters, options, residual);
  }
  OpPtr op = training ? OpPtr(std::make_shared<ops::BatchNorm>(options))
                      : OpPtr(std::make_shared<ops::BatchNormInference>(options));
  const Tensor scale(parameters.scale), shift(parameters.shift);
  const Tensor mean(parameters.running_mean), variance(parameters.running_variance);
  if (residual.defined()) return apply_op(std::move(op), {x, scale, shift, mean, variance, residual});
  return apply_op(std::move(op), {x, scale, shift, mean, variance});
}

Tensor max_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::MaxPool2d>(options), {x});
}

Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::AvgPool2d>(options), {x});
}

namespace {

/// x with the value around it, so that every window of the pooling lies in it.
Tensor padded_for(const Tensor& x, const PoolOptions& options, Extent2d window, const Shape& y, double value) {
  const auto after = [&](int axis, std::int64_t Extent2d::*side) {
    const std::int64_t end = (y[axis] - 1) * options.stride.*side + window.*side - options.padding.*side;
    return std::max<std::int64_t>(0, end - x.shape()[axis]);
  };
  return pad(x, {{}, {options.padding.h, after(1, &Extent2d::h)}, {options.padding.w, after(2, &Extent2d::w)}, {}},
             value);
}

/// The rows or columns of all windows, one window after the other.
Tensor windows_apart(const Tensor& x, int axis, std::int64_t outputs, std::int64_t window, std::int64_t stride,
                     std::int64_t dilation) {
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < outputs * window; ++i) {
    places.push_back(static_cast<std::int32_t>(i / window * stride + i % window * dilation));
  }
  return select_places(x, axis, places);
}

}  // namespace

/// The pixels of each window are brought together and pooled without gaps.
Tensor max_pool2d(const Tensor& x, const PoolOptions& options, Extent2d dilation) {
  const auto& [window, stride, padding, ceil_mode, count_include_pad] = options;
  if (dilation == Extent2d(1)) return max_pool2d(x, options);
  BRAID_CHECK(dilation.h >= 1 && dilation.w >= 1 && x.shape().rank() == 4, ShapeError,
              "[max_pool2d] expected an input of shape [N,H,W,C] and a dilation of at least 1, got ", x.shape(),
              " and ", dilation);
  const Extent2d reach(dilation.h * (window.h - 1) + 1, dilation.w * (window.w - 1) + 1);
  BRAID_CHECK(padding.h <= window.h / 2 && padding.w <= window.w / 2, ShapeError,
              "[max_pool2d] expected padding of at most half the window ", window, ", got ", padding);
  return called("max_pool2d", [&] {
    const Shape y = ops::pooled_shape("max_pool2d", {reach, stride, padding, ceil_mode}, x.shape());
    const Tensor whole = padded_for(x, options, reach, y, -std::numeric_limits<double>::infinity());
    const Tensor rows = windows_apart(whole, 1, y[1], window.h, stride.h, dilation.h);
    return max_pool2d(windows_apart(rows, 2, y[2], window.w, stride.w, dilation.w), {window, window});
  });
}

/// Means of whole windows, of which some are padded, times what they were divided by.
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options, std::int64_t divisor) {
  BRAID_CHECK(divisor != 0, ShapeError, "[avg_pool2d] expected a divisor other than 0");
  return called("avg_pool2d", [&] {
    const Shape y = ops::pooled_shape("avg_pool2d", options, x.shape());
    const Tensor means = avg_pool2d(padded_for(x, options, options.window, y, 0), {options.window, options.stride});
    return scale(means, static_cast<double>(options.window.h * options.window.w) / static_cast<double>(divisor));
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output) {
  return apply_op(std::make_shared<ops::AdaptiveAvgPool2d>(output), {x});
}

Tensor global_avg_pool(const Tensor& x) { return apply_op(std::make_shared<ops::GlobalAvgPool>(), {x}); }

namespace {

/// The operand with these axes before its matrices.
Tensor with_batch(const Tensor& x, const Shape& batch) {
  std::vector<std::int64_t> extents = extents_of(batch);
  extents.insert(extents.end(), {x.shape()[-2], x.shape()[-1]});
  return expand(x, extents);
}

}  // namespace

/// A batch of matrices times one matrix is the product of one tall matrix.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Shape shape = a.shape(), of_b = b.shape();
  if (shape.rank() == 1 && !options.transpose_a)
    return squeeze(matmul(unsqueeze(a, 0), b, options), -2 + (of_b.rank() == 1));
  if (of_b.rank() == 1 && !options.transpose_b) return squeeze(matmul(a, unsqueeze(b, 1), options), -1);
  if (shape.rank() > 2 && of_b.rank() > 2) {
    const Shape batch_a = Shape(shape.extents().first(static_cast<std::size_t>(shape.rank() - 2)));
    const Shape batch_b = Shape(of_b.extents().first(static_cast<std::size_t>(of_b.rank() - 2)));
    if (batch_a != batch_b) {
      return called("matmul", [&] {
        const Shape batch = ops::broadcast_shape("matmul", batch_a, batch_b);
        return apply_op(std::make_shared<ops::Matmul>(options), {with_batch(a, batch), with_batch(b, batch)});
      });
    }
  }
  if (shape.rank() <= 2 || b.shape().rank() != 2 || options.transpose_a || shape.size() == 0) {
    return apply_op(std::make_shared<ops::Matmul>(options), {a, b});
  }
  const Tensor y = matmul(reshape(a, {shape.size() / shape[-1], shape[-1]}), b, options);
  return reshape(y, shape.with(-1, y.shape()[1]));
}

namespace {

/// Four weighted neighbours along an axis (Keys, 1981, with the constant -0.75 of PyTorch).
Tensor bicubic_along(const Tensor& x, int axis, const ResampledAxis& places) {
  std::array<std::vector<std::int32_t>, 4> taps;
  std::array<std::vector<double>, 4> weights;
  for (std::int64_t out = 0; out < places.output; ++out) {
    const double place = places.place(out), first = std::floor(place);
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int64_t tap = static_cast<std::int64_t>(first) + static_cast<std::int64_t>(k) - 1;
      taps[k].push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(tap, 0, places.input - 1)));
      const double d = std::abs(place - static_cast<double>(tap)), a = -0.75;
      weights[k].push_back(d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
    }
  }
  const Tape::Guard guard(x.tape());
  const Shape along = Shape{1, 1, 1, 1}.with(axis, places.output);
  const auto tap = [&](std::size_t k) {
    const DType dtype = computed_in(x.dtype());
    const std::vector<float> narrow(weights[k].begin(), weights[k].end());
    const Tensor weight = dtype == DType::f64 ? Array::from(weights[k], along) : Array::from(narrow, along);
    return cast(weight, x.dtype()) * select_places(x, axis, taps[k]);
  };
  const std::array terms{tap(0), tap(1), tap(2), tap(3)};
  const Tensor first = terms[0] + terms[1];
  return first + (terms[2] + terms[3]);
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const auto& [size, scale, mode, align_corners] = options;
  const Shape& shape = x.shape();
  constexpr double kMostScale = 1 << 20;
  BRAID_CHECK((size == Extent2d(0)) != (scale == 0) && scale >= 0 && scale <= kMostScale, ShapeError,
              "[interpolate] expected either a size or a scale above 0, got size ", size, " and scale ", scale);
  BRAID_CHECK(shape.rank() == 4, ShapeError, "[interpolate] expected an input of shape [N,H,W,C], got ", shape);
  const bool is_smooth = mode == Interpolation::bilinear || mode == Interpolation::bicubic;
  BRAID_CHECK(!align_corners || is_smooth, ShapeError,
              "[interpolate] align_corners is for bilinear and bicubic interpolation, got ", name_of(mode));
  ops::InterpolateAttributes attributes{size, 1 / scale, 1 / scale, mode, align_corners};
  if (scale == 0) {
    attributes.step_h = static_cast<double>(shape[1]) / static_cast<double>(size.h);
    attributes.step_w = static_cast<double>(shape[2]) / static_cast<double>(size.w);
  } else {
    attributes.output = {static_cast<std::int64_t>(scale * static_cast<double>(shape[1])),
                         static_cast<std::int64_t>(scale * static_cast<double>(shape[2]))};
  }
  // Ignores the scale then, as PyTorch does.
  const auto whole_step = [mode = mode](double& step, std::int64_t in, std::int64_t out) {
    if (out == in) step = 1;
    if (out == 2 * in && mode == Interpolation::nearest) step = 0.5;
  };
  whole_step(attributes.step_h, shape[1], attributes.output.h);
  whole_step(attributes.step_w, shape[2], attributes.output.w);
  if (align_corners) {
    const auto between_centres = [](std::int64_t in, std::int64_t out) {
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
    };
    attributes.step_h = between_centres(shape[1], attributes.output.h);
    attributes.step_w = between_centres(shape[2], attributes.output.w);
  }
  if (mode == Interpolation::bicubic) {
    BRAID_CHECK(shape[1] >= 1 && shape[2] >= 1 && attributes.output.h >= 1 && attributes.output.w >= 1, ShapeError,
                "[interpolate] expected images of at least one pixel, got ", shape, " to become ", attributes.output);
    const Resampling places(attributes, shape, shape.with(1, attributes.output.h).with(2, attributes.output.w));
    return bicubic_along(bicubic_along(x, 1, places.h), 2, places.w);
  }
  return apply_op(std::make_shared<ops::Interpolate>(attributes), {x});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Shape& shape = x.shape();
  BRAID_CHECK(shape.rank() >= 2, ShapeError, "[group_norm] expected an input of shape [N,...,C], got ", shape);
  const Tensor rows = view(x, {shape[0], shape.size_between(1, shape.rank() - 1), shape[-1]});
  return view(apply_op(std::make_shared<ops::GroupNorm>(groups, epsilon), {rows, scale, shift}), shape);
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Shape of_x = x.shape(), of_scale = scale.shape();
  const auto extents = of_x.extents(), normalised = of_scale.extents();
  BRAID_CHECK(!normalised.empty() && normalised.size() <= extents.size() &&
                  std::ranges::equal(extents.last(normalised.size()), normalised) && shift.shape() == scale.shape(),
              ShapeError, "[layer_norm] expected scale and shift with the last extents of an input of shape ",
              x.shape(), ", got ", scale.shape(), " and ", shift.shape());
  const std::int64_t size = of_scale.size();
  const Tensor rows = view(x, {of_x.size_between(0, of_x.rank() - of_scale.rank()), 1, size});
  const std::array inputs{rows, view(scale, {size}), view(shift, {size})};
  return called("layer_norm",
                [&] { return view(apply_op(std::make_shared<ops::GroupNorm>(1, epsilon), inputs), x.shape()); });
}

Tensor dropout(const Tensor& x, double p, std::uint32_t layer) {
  constexpr std::uint32_t kMostLayers = 1u << 16;
  BRAID_CHECK(layer < kMostLayers, Error, "[dropout] expected a layer below ", kMostLayers, ", got ", layer);
  Tape& tape = x.tape();
  const StepGraph& graph = tape.graph();
  const ValueId step = tape.step_number();
  const auto is_call = [&](const Node& node) {
    if (node.input_count != 2 || graph.inputs(node)[1] != step) return false;  // nearly all nodes: avoids a cast
    const auto* op = dynamic_cast<const ops::Dropout*>(node.op.get());
    return op != nullptr && op->attributes().layer % kMostLayers == layer &&
           graph.value(node.first_output).kind != ValueKind::gradient;
  };
  const auto calls = static_cast<std::uint32_t>(std::ranges::count_if(graph.nodes(), is_call));
  return apply_op(std::make_shared<ops::Dropout>(p, tape.context().random().seed, layer + kMostLayers * calls),
                  {x, tape.tensor(step)});
}

}  // namespace braid
