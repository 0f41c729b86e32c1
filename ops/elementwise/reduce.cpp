#include "ops/elementwise/reduce.h"

#include "ops/common/check.h"
#include "ops/elementwise/expression.h"
#include "ops/layout/reshape.h"

namespace braid::ops {

namespace {

/// The name of the function that users call, for messages.
constexpr std::string_view shown_name(ReduceKind kind) {
  constexpr std::string_view kNames[] = {"sum", "mean", "amax", "amin"};
  return kNames[static_cast<int>(kind)];
}

/// The value as if it had kept the axes: a view, if it did not.
ValueId with_axes(GradientContext& context, ValueId value, const Shape& kept) {
  if (context.desc(value).shape == kept) return value;
  return context.record(std::make_shared<Reshape>(kept), {value});
}

}  // namespace

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keep_axes) {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::size_t count = 0;
  int next = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = next < axes.rank() && axes[next] == axis;
    next += reduced;
    if (!reduced || keep_axes) extents[count++] = reduced ? 1 : shape[axis];
  }
  return Shape(std::span(extents).first(count));
}

void Reduce::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const std::string_view op = shown_name(attributes_.kind);
  check_inputs(op, inputs, 1);
  check_floating(op, "an input", inputs[0]);
  const Shape &x = inputs[0].shape, &axes = attributes_.axes;
  std::int64_t count = 1;
  for (int i = 0; i < axes.rank(); ++i) {
    BRAID_CHECK(axes[i] < x.rank() && (i == 0 || axes[i - 1] < axes[i]), ShapeError, "[", op,
                "] expected different axes below ", x.rank(), " in increasing order, got ", axes, " (input is ", x,
                ")");
    count *= x[static_cast<int>(axes[i])];
  }
  const bool extreme = attributes_.kind == ReduceKind::max || attributes_.kind == ReduceKind::min;
  BRAID_CHECK(!extreme || count > 0, ShapeError, "[", op, "] expected elements along axes ", axes,
              ", got none (input is ", x, ")");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = reduced_shape(x, axes, attributes_.keep_axes)});
}

Work Reduce::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return Op::work(inputs, outputs).with_flops(static_cast<double>(inputs[0].shape.size()));
}

void Reduce::gradient(GradientContext& context) const {
  const ValueId x = context.input(0), y = context.output(0);
  const Shape shape = context.desc(x).shape, kept = reduced_shape(shape, attributes_.axes, true);
  const ValueId dy = with_axes(context, context.output_gradient(0), kept);
  if (attributes_.kind == ReduceKind::sum || attributes_.kind == ReduceKind::mean) {
    Expression expression;
    if (attributes_.kind == ReduceKind::mean) {
      expression.constants.push_back(static_cast<double>(shape.size() / std::max<std::int64_t>(1, kept.size())));
      expression.instructions.push_back({Function::div, 0, Expression::kFirstConstant});
    }
    context.set_input_gradient(0, context.record(std::make_shared<Elementwise>(expression, shape), {dy}));
    return;
  }
  const ValueId extreme = with_axes(context, y, kept);
  const ValueId is_extreme = context.record(elementwise(Function::equal), {x, extreme});
  const ValueId count = context.record(std::make_shared<Reduce>(ReduceKind::sum, attributes_.axes, true), {is_extreme});
  const ValueId share = context.record(elementwise(Function::div), {dy, count});
  context.set_input_gradient(0, context.record(elementwise(Function::mul), {share, is_extreme}));
}

OpAxes Reduce::axes(const NodeValues& node) const {
  const bool adds = attributes_.kind == ReduceKind::sum || attributes_.kind == ReduceKind::mean;
  std::string x = OpAxes::by_place(node.inputs[0].shape.rank()), y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto& reduced = attributes_.axes.extents();
    const bool is_reduced = std::ranges::find(reduced, static_cast<std::int64_t>(i)) != reduced.end();
    if (is_reduced && !adds) x[i] = '_';
    if (!is_reduced) y += x[i];
    if (is_reduced && attributes_.keep_axes) y += '_';
  }
  return {x + (attributes_.kind == ReduceKind::mean ? "->~" : "->") + y};
}

}  // namespace braid::ops
