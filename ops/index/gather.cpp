#include "ops/index/gather.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/elementwise/elementwise.h"

namespace braid::ops {

namespace {

/// Checks that the index has the extents of x, or 1 in all of them, on either side of the axis. Returns x's shape with
/// the index's extent.
Shape gathered_shape(std::string_view op, int axis, const Shape& x, const ValueDesc& index) {
  check_dtype(op, "indices", index, DType::i32);
  const Shape& of_index = index.shape;
  BRAID_CHECK(of_index.rank() == x.rank() && axis >= 0 && axis < x.rank(), ShapeError, "[", op,
              "] expected indices of the rank of ", x, " and one of its axes, got indices of shape ", of_index,
              " and axis ", axis);
  const auto agrees = [&](int begin, int end) {
    bool same = true, single = true;
    for (int i = begin; i < end; ++i) {
      same = same && of_index[i] == x[i];
      single = single && of_index[i] == 1;
    }
    return same || single;
  };
  BRAID_CHECK(agrees(0, axis) && agrees(axis + 1, x.rank()), ShapeError, "[", op, "] expected indices like ", x,
              ", or with extents of 1, in front of axis ", axis, " and behind it, got indices of shape ", of_index);
  return x.with(axis, of_index[axis]);
}

/// The letters of x, the index and y. Along the axis x is whole, and what the index has, y has.
struct GatherLetters {
  std::string x, index, y;
};
GatherLetters letters_of(int axis, const Shape& index, const Shape& y) {
  GatherLetters letters;
  letters.x = letters.index = letters.y = OpAxes::by_place(y.rank());
  letters.x[static_cast<std::size_t>(axis)] = '_';
  for (int i = 0; i < y.rank(); ++i) {
    if (i != axis && index[i] != y[i]) letters.index[static_cast<std::size_t>(i)] = '_';
  }
  return letters;
}

}  // namespace

void Gather::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  const Shape y = gathered_shape(name(), attributes_.axis, inputs[0].shape, inputs[1]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y});
}

void Gather::gradient(GradientContext& context) const {
  if (!context.needs(0)) return;
  const auto [dtype, x] = context.desc(context.input(0));
  const ValueId dy = cast(context, context.output_gradient(0), computed_in(dtype));
  const OpPtr sum = std::make_shared<ScatterSum>(attributes(), x[attributes_.axis]);
  context.set_input_gradient(0, cast(context, context.record(sum, {dy, context.input(1)}), dtype));
}

OpAxes Gather::axes(const NodeValues& node) const {
  const GatherLetters letters = letters_of(attributes_.axis, node.inputs[1].shape, node.outputs[0].shape);
  return {letters.x + ',' + letters.index + "->" + letters.y};
}

void ScatterSum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_floating(name(), "an output gradient", inputs[0]);
  check_dtype(name(), "an output gradient", inputs[0], computed_in(inputs[0].dtype));
  const auto& [gather, extent] = attributes_;
  BRAID_CHECK(extent >= 0 && extent <= Shape::kMaxExtent, ShapeError, "[scatter_sum] expected an extent from 0 to ",
              Shape::kMaxExtent, ", got ", extent);
  check_shape(name(), "an output gradient", inputs[0], gathered_shape(name(), gather.axis, inputs[0].shape, inputs[1]));
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape.with(gather.axis, extent)});
}

void ScatterSum::gradient(GradientContext& context) const {
  set_gradient<Gather>(context, 0, {context.output_gradient(0), context.input(1)}, attributes_.gather);
}

OpAxes ScatterSum::axes(const NodeValues& node) const {
  const GatherLetters letters = letters_of(attributes_.gather.axis, node.inputs[1].shape, node.inputs[0].shape);
  return {letters.y + ',' + letters.index + "->" + letters.x};
}

}  // namespace braid::ops
