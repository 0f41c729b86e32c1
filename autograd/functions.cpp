#include "autograd/functions.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <typeinfo>

#include "ops/elementwise/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/softmax.h"
#include "ops/norm/group_norm.h"
#include "ops/optimizer/blend.h"

namespace braid {

Tensor apply_op(OpPtr op, std::span<const Tensor> inputs) {
  BRAID_CHECK(op != nullptr, Error, "[apply_op] expected an op, got a null pointer");
  BRAID_CHECK(!inputs.empty(), ShapeError, "[", op->name(), "] expected at least one input");
  Tape& tape = inputs[0].tape();
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) {
    BRAID_CHECK(&input.tape() == &tape, Error, "[", op->name(), "] its inputs belong to different sessions");
    ids.push_back(input.id());
  }
  return tape.tensor(tape.record(std::move(op), ids));
}

std::vector<Tensor> outputs_of(const Tensor& output) {
  Tape& tape = output.tape();
  const NodeId producer = tape.graph().value(output.id()).producer;
  BRAID_CHECK(producer != kNoNode, Error, "[outputs_of] expected the output of an op, got an input or a parameter");
  std::vector<Tensor> outputs;
  for (int i = 0; i < tape.graph().node(producer).output_count; ++i) {
    outputs.push_back(tape.tensor(tape.graph().output(producer, i)));
  }
  return outputs;
}

Tensor detach(const Tensor& x) {
  const Tape::Guard guard(x.tape());
  const NoGrad no_grad(x.tape());
  return reshape(x, x.shape());
}

void assign(Parameter& parameter, const Tensor& value) {
  Tape& tape = value.tape();
  const NoGrad no_grad(tape);
  BRAID_CHECK(value.dtype() == parameter.desc().dtype && value.shape() == parameter.shape(), ShapeError, "[assign] '",
              parameter.name(), "' is ", parameter.desc().dtype, ' ', parameter.shape(), ", got ", value.dtype(), ' ',
              value.shape());
  const ValueId before = tape.record_parameter(parameter);
  const ValueId coefficients = tape.record_input(Array::from<double>({0, 1}, {2}));
  tape.record(std::make_shared<ops::Blend>(), std::array{coefficients, before, value.id()});
}

namespace {

/// Records the ops of a function. Errors name the function, not the op that threw.
template <class Record>
Tensor called(std::string_view function, const Record& record) {
  const auto renamed = [&](const Error& error) {
    const std::string_view text = error.what();
    return text.starts_with('[') ? message('[', function, text.substr(text.find(']'))) : std::string(text);
  };
  try {
    return record();
  } catch (const ShapeError& error) {
    throw ShapeError(renamed(error));
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw Error(renamed(error));
  }
}

}  // namespace

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

Tensor linear(const Tensor& x, const Tensor& w) { return apply_op(std::make_shared<ops::Linear>(), {x, w}); }

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return apply_op(std::make_shared<ops::Linear>(), {x, w, bias});
}

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

Tensor relu(const Tensor& x) { return apply_op(std::make_shared<ops::Relu>(), {x}); }

Tensor relu6(const Tensor& x) { return apply_op(std::make_shared<ops::Relu6>(), {x}); }

Tensor max_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::MaxPool2d>(options), {x});
}

Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::AvgPool2d>(options), {x});
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output) {
  return apply_op(std::make_shared<ops::AdaptiveAvgPool2d>(output), {x});
}

Tensor global_avg_pool(const Tensor& x) { return apply_op(std::make_shared<ops::GlobalAvgPool>(), {x}); }

Tensor scale(const Tensor& x, double factor) { return apply_op(std::make_shared<ops::Scale>(factor), {x}); }

Tensor scale(const Tensor& x, const Tensor& factor) { return apply_op(std::make_shared<ops::ScaleBy>(), {x, factor}); }

Tensor sum(std::span<const Tensor> inputs) { return apply_op(std::make_shared<ops::Sum>(), inputs); }

Tensor weighted_sum(const Tensor& weights, std::span<const Tensor> inputs) {
  std::vector<Tensor> all{weights};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return apply_op(std::make_shared<ops::WeightedSum>(), all);
}

namespace {

/// An axis counted from the first.
int axis_of(std::string_view op, const Tensor& x, int axis) {
  const int rank = x.shape().rank();
  BRAID_CHECK(axis >= -rank && axis < rank, ShapeError, "[", op, "] axis ", axis, " is not one of an input of shape ",
              x.shape());
  return axis < 0 ? axis + rank : axis;
}

Tensor view(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

/// Product of extents [begin, end).
std::int64_t extent_between(const Shape& shape, int begin, int end) {
  std::int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= shape[axis];
  return product;
}

}  // namespace

/// Other axes than the last are moved there in a view.
Tensor concat(std::span<const Tensor> inputs, int axis) {
  if (inputs.empty() || axis == -1) return apply_op(std::make_shared<ops::Concat>(), inputs);
  axis = axis_of("concat", inputs[0], axis);
  if (axis == inputs[0].shape().rank() - 1) return concat(inputs);
  const Shape others = inputs[0].shape().with(axis, 0);
  std::int64_t joined = 0;
  std::vector<Tensor> rows;
  for (const Tensor& input : inputs) {
    const Shape shape = input.shape();
    BRAID_CHECK(shape.rank() == others.rank() && shape.with(axis, 0) == others, ShapeError,
                "[concat] expected inputs that agree in all but axis ", axis, ", got ", inputs[0].shape(), " and ",
                shape);
    joined += shape[axis];
    rows.push_back(reshape(input, {extent_between(shape, 0, axis), extent_between(shape, axis, shape.rank())}));
  }
  return reshape(apply_op(std::make_shared<ops::Concat>(), rows), others.with(axis, joined));
}

Tensor permute(const Tensor& x, std::vector<int> axes) {
  for (int& axis : axes) axis = axis_of("permute", x, axis);
  const auto op = std::make_shared<ops::Permute>(axes);
  std::vector<OutputDesc> y;
  op->infer(std::vector<ValueDesc>{{x.dtype(), x.shape()}}, y);
  std::erase_if(axes, [&](int axis) { return x.shape()[axis] == 1; });
  return std::ranges::is_sorted(axes) ? reshape(x, y[0].shape) : apply_op(op, {x});
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> axes(static_cast<std::size_t>(x.shape().rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axis_of("transpose", x, a)], axes[axis_of("transpose", x, b)]);
  return permute(x, axes);
}

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  axis = axis_of("slice", x, axis);
  const std::int64_t extent = x.shape()[axis];
  const auto place = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(index < 0 ? index + extent : index, 0, extent);
  };
  std::vector<Padding> paddings(static_cast<std::size_t>(x.shape().rank()));
  paddings[axis] = {-place(begin), std::max(place(begin), place(end)) - extent};
  return pad(x, paddings);
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis) {
  axis = axis_of("split", x, axis);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    BRAID_CHECK(size >= 0 && size <= Shape::kMaxExtent, ShapeError, "[split] expected sizes from 0 to ",
                Shape::kMaxExtent, ", got ", size);
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  BRAID_CHECK(begin == x.shape()[axis], ShapeError, "[split] expected sizes that add up to ", x.shape()[axis],
              ", axis ", axis, " of ", x.shape(), ", got ", begin);
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis) {
  const std::int64_t extent = x.shape()[axis_of("chunk", x, axis)];
  constexpr std::int64_t kMost = 1 << 22;
  BRAID_CHECK(count >= 1 && count <= kMost && extent % count == 0, ShapeError, "[chunk] ", extent,
              " elements do not divide into ", count, " equal parts (input is ", x.shape(), ", axis ", axis, ")");
  return split(x, std::vector(static_cast<std::size_t>(count), extent / count), axis);
}

Tensor pad(const Tensor& x, std::span<const Padding> paddings, double value) {
  BRAID_CHECK(std::ssize(paddings) == x.shape().rank(), ShapeError, "[pad] expected paddings for ", x.shape().rank(),
              " axes (input is ", x.shape(), "), got ", paddings.size());
  const Shape shape = x.shape();
  std::vector<std::int64_t> begin, extents(shape.extents().begin(), shape.extents().end());
  constexpr std::int64_t kMost = Shape::kMaxExtent;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    for (const std::int64_t padding : {paddings[i].before, paddings[i].after}) {
      BRAID_CHECK(padding >= -kMost && padding <= kMost, ShapeError, "[pad] expected paddings of at most ", kMost,
                  ", got ", padding);
    }
    begin.push_back(-paddings[i].before);
    extents[i] += paddings[i].before + paddings[i].after;
  }
  const bool whole = std::ranges::all_of(paddings, [](const Padding& p) { return p.before == 0 && p.after == 0; });
  return whole ? x : apply_op(std::make_shared<ops::Window>(std::move(begin), Shape(extents), value), {x});
}

/// A batch of matrices times one matrix is the product of one tall matrix.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  const Shape& shape = a.shape();
  if (shape.rank() <= 2 || b.shape().rank() != 2 || options.transpose_a || shape.size() == 0) {
    return apply_op(std::make_shared<ops::Matmul>(options), {a, b});
  }
  const Tensor y = matmul(reshape(a, {shape.size() / shape[-1], shape[-1]}), b, options);
  return reshape(y, shape.with(-1, y.shape()[1]));
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const auto& [size, scale, mode] = options;
  const Shape& shape = x.shape();
  constexpr double kMostScale = 1 << 20;
  BRAID_CHECK((size == Extent2d(0)) != (scale == 0) && scale >= 0 && scale <= kMostScale, ShapeError,
              "[interpolate] expected either a size or a scale above 0, got size ", size, " and scale ", scale);
  BRAID_CHECK(shape.rank() == 4, ShapeError, "[interpolate] expected an input of shape [N,H,W,C], got ", shape);
  ops::InterpolateAttributes attributes{size, 1 / scale, 1 / scale, mode};
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
  return apply_op(std::make_shared<ops::Interpolate>(attributes), {x});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift, double epsilon) {
  const Shape& shape = x.shape();
  BRAID_CHECK(shape.rank() >= 2, ShapeError, "[group_norm] expected an input of shape [N,...,C], got ", shape);
  const Tensor rows = view(x, {shape[0], extent_between(shape, 1, shape.rank() - 1), shape[-1]});
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
  const Tensor rows = view(x, {extent_between(of_x, 0, of_x.rank() - of_scale.rank()), 1, size});
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

Tensor reshape(const Tensor& x, const Shape& shape) { return apply_op(std::make_shared<ops::Reshape>(shape), {x}); }

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> extents) {
  if (std::ranges::find(extents, -1) == extents.end()) return reshape(x, Shape(extents));
  std::vector<std::int64_t> list(extents);
  std::int64_t& open = *std::ranges::find(list, -1);
  open = 1;
  const std::int64_t others = Shape(list).size(), size = x.shape().size();
  BRAID_CHECK(others > 0 && size % others == 0, ShapeError, "[reshape] expected extents that divide ", size,
              " elements (input is ", x.shape(), "), got ", others, " without the one that is -1");
  open = size / others;
  return reshape(x, Shape(list));
}

Tensor flatten(const Tensor& x) {
  const Shape shape = x.shape();
  BRAID_CHECK(shape.rank() >= 1, ShapeError, "[flatten] expected an input of shape [N,...], got a scalar");
  return reshape(x, {shape[0], extent_between(shape, 1, shape.rank())});
}

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : x.tape().tensor(x.tape().record_cast(x.id(), dtype));
}

namespace {

/// An op of logits [N,K] and labels [N] (or targets [N,K]), applied to those of images' pixels, [N,...,K] and [N,...].
Tensor classify(OpPtr op, const Tensor& logits, const Tensor& labels) {
  const Tensor scores = cast(logits, computed_in(logits.dtype()));
  const Shape& shape = logits.shape();
  if (shape.rank() <= 2 || shape.size() == 0) return apply_op(std::move(op), {scores, labels});
  const std::int64_t classes = shape[shape.rank() - 1], rows = shape.size() / classes;
  const bool are_targets = labels.shape() == shape;
  BRAID_CHECK(are_targets || labels.shape() == label_shape(shape), ShapeError, "[", op->name(),
              "] expected labels of shape ", label_shape(shape), " (logits are ", shape, "), got ", labels.shape());
  return apply_op(std::move(op), {reshape(scores, {rows, classes}),
                                  reshape(labels, are_targets ? Shape{rows, classes} : Shape{rows})});
}

}  // namespace

Shape label_shape(const Shape& logits) {
  BRAID_CHECK(logits.rank() >= 1, ShapeError, "[label_shape] expected logits of shape [N,...,K], got ", logits);
  return Shape(logits.extents().first(static_cast<std::size_t>(logits.rank() - 1)));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing) {
  return classify(std::make_shared<ops::CrossEntropy>(label_smoothing), logits, labels);
}

Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  return classify(std::make_shared<ops::Accuracy>(k), logits, labels);
}

namespace {

Tensor unary(Function function, const Tensor& x) { return apply_op(ops::elementwise(function), {x}); }
Tensor binary(Function function, const Tensor& a, const Tensor& b) {
  return apply_op(ops::elementwise(function), {a, b});
}
Tensor binary(Function function, const Tensor& a, double b) { return apply_op(ops::elementwise(function, b), {a}); }
Tensor binary(Function function, double a, const Tensor& b) {
  return apply_op(ops::elementwise(function, a, true), {b});
}

Tensor reduce(ops::ReduceKind kind, std::string_view function, const Tensor& x, const Axes& axes, bool keep_axes) {
  return apply_op(std::make_shared<ops::Reduce>(kind, axes.of(function, x.shape()), keep_axes), {x});
}

Tensor softmax_op(std::string_view function, const Tensor& x, int axis, bool logarithm) {
  const Shape axes = Axes(axis).of(function, x.shape());
  return apply_op(std::make_shared<ops::Softmax>(static_cast<int>(axes[0]), logarithm), {x});
}

/// The loss of an expression of x, the target and possibly a weight.
Tensor elementwise_loss(std::string_view function, const OpPtr& op, const Tensor& x, const Tensor& target,
                        LossReduction reduction, const Tensor& weight = {}) {
  BRAID_CHECK(x.shape() == target.shape(), ShapeError, "[", function, "] expected a target of shape ", x.shape(),
              ", as the input's, got ", target.shape());
  return called(function, [&] {
    const DType dtype = computed_in(x.dtype());
    std::vector<Tensor> inputs = {cast(x, dtype), cast(target, dtype)};
    if (weight.defined()) inputs.push_back(cast(weight, dtype));
    const Tensor losses = apply_op(op, inputs);
    if (reduction == LossReduction::none) return losses;
    return reduction == LossReduction::sum ? sum(losses) : mean(losses);
  });
}

constexpr std::uint8_t kFirstResult = ops::Expression::kFirstResult, kFirstConstant = ops::Expression::kFirstConstant;

OpPtr expression(ops::Expression expression) { return std::make_shared<ops::Elementwise>(expression); }

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return binary(Function::add, a, b);
  return called("add", [&] { return apply_op(std::make_shared<ops::Sum>(), {a, b}); });
}

Tensor sub(const Tensor& a, const Tensor& b) { return binary(Function::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(Function::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(Function::div, a, b); }
Tensor operator+(const Tensor& a, double b) { return binary(Function::add, a, b); }
Tensor operator-(const Tensor& a, double b) { return binary(Function::sub, a, b); }
Tensor operator-(double a, const Tensor& b) { return binary(Function::sub, a, b); }
Tensor operator/(const Tensor& a, double b) { return binary(Function::div, a, b); }
Tensor operator/(double a, const Tensor& b) { return binary(Function::div, a, b); }
Tensor operator-(const Tensor& a) { return unary(Function::neg, a); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(Function::minimum, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(Function::maximum, a, b); }

Tensor clamp(const Tensor& x, double least, double most) {
  BRAID_CHECK(least <= most, Error, "[clamp] expected bounds in this order, got ", least, " and ", most);
  const OpPtr op =
      expression({{{Function::clamp_min, 0, kFirstConstant}, {Function::clamp_max, kFirstResult, kFirstConstant + 1}},
                  {least, most}});
  return called("clamp", [&] { return apply_op(op, {x}); });
}

Tensor exp(const Tensor& x) { return unary(Function::exp, x); }
Tensor log(const Tensor& x) { return unary(Function::log, x); }
Tensor sqrt(const Tensor& x) { return unary(Function::sqrt, x); }
Tensor square(const Tensor& x) {
  return called("square", [&] { return binary(Function::mul, x, x); });
}
Tensor pow(const Tensor& x, double exponent) { return binary(Function::pow, x, exponent); }
Tensor abs(const Tensor& x) { return unary(Function::abs, x); }
Tensor sigmoid(const Tensor& x) { return unary(Function::sigmoid, x); }
Tensor tanh(const Tensor& x) { return unary(Function::tanh, x); }
Tensor softplus(const Tensor& x) { return unary(Function::softplus, x); }
Tensor silu(const Tensor& x) { return unary(Function::silu, x); }
Tensor leaky_relu(const Tensor& x, double slope) { return binary(Function::leaky_relu, x, slope); }

Tensor gelu(const Tensor& x, Gelu approximation) {
  return unary(approximation == Gelu::exact ? Function::gelu : Function::gelu_tanh, x);
}

Shape Axes::of(std::string_view function, const Shape& shape) const {
  std::array<bool, Shape::kMaxRank> chosen{};
  for (const std::int64_t axis : axes_) {
    BRAID_CHECK(axis >= -shape.rank() && axis < shape.rank(), ShapeError, "[", function, "] expected axes of ", shape,
                ", from ", -shape.rank(), " to ", shape.rank() - 1, ", got ", axis);
    bool& own = chosen[axis < 0 ? axis + shape.rank() : axis];
    BRAID_CHECK(!own, ShapeError, "[", function, "] expected different axes, got ", axis, " twice");
    own = true;
  }
  std::array<std::int64_t, Shape::kMaxRank> list{};
  std::size_t count = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes_.empty() || chosen[axis]) list[count++] = axis;
  }
  return Shape(std::span(list).first(count));
}

Tensor sum(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::sum, "sum", x, axes, keep_axes);
}
Tensor mean(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::mean, "mean", x, axes, keep_axes);
}
Tensor amax(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::max, "amax", x, axes, keep_axes);
}
Tensor amin(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::min, "amin", x, axes, keep_axes);
}

Tensor softmax(const Tensor& x, int axis) { return softmax_op("softmax", x, axis, false); }
Tensor log_softmax(const Tensor& x, int axis) { return softmax_op("log_softmax", x, axis, true); }

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  static const OpPtr op = expression({{{Function::sub, 0, 1}, {Function::mul, kFirstResult, kFirstResult}}, {}});
  return elementwise_loss("mse_loss", op, x, target, reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  static const OpPtr op = expression({{{Function::sub, 0, 1}, {Function::abs, kFirstResult, kFirstResult}}, {}});
  return elementwise_loss("l1_loss", op, x, target, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, LossReduction reduction,
                                        const Tensor& positive_weight) {
  constexpr std::string_view kName = "binary_cross_entropy_with_logits";
  if (!positive_weight.defined()) {
    return elementwise_loss(kName, ops::elementwise(Function::bce_with_logits), logits, target, reduction);
  }
  static const OpPtr weighted = [] {
    ops::ExpressionBuilder builder;
    const ops::Term x = builder.input(0), z = builder.input(1), p = builder.input(2);
    return expression(builder.finish((1 - z) * x + (1 - z + p * z) * builder.apply(Function::softplus, -x)));
  }();
  return elementwise_loss(kName, weighted, logits, target, reduction, positive_weight);
}

}  // namespace braid
