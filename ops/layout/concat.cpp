#include "ops/layout/concat.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/layout/strided_copy.h"

namespace braid::ops {

namespace {

void check_agreement(std::string_view op, const Shape& a, const Shape& b, int axis = -1) {
  BRAID_CHECK(a.rank() == b.rank() && a.with(axis, 0) == b.with(axis, 0), ShapeError, "[", op,
              "] expected inputs that agree in all but ",
              axis == -1 ? "the last dimension" : message("dimension ", axis), ", got ", a, " and ", b);
}

void check_slice(std::string_view op, const Shape& x, std::int64_t begin, std::int64_t count) {
  BRAID_CHECK(x.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= x[-1], ShapeError, "[", op, "] channels ",
              begin, " to ", begin + count, " are not all in an input of shape ", x);
}

/// Zeros like `like`, with the slice at its place.
ValueId placed(GradientContext& context, ValueId slice, std::int64_t begin, ValueId like) {
  const Shape shape = context.desc(like).shape;
  std::vector<std::int64_t> places(static_cast<std::size_t>(shape.rank()));
  places.back() = -begin;
  return context.record(std::make_shared<Window>(std::move(places), shape, 0.0), {slice});
}

}  // namespace

void Concat::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty(), ShapeError, "[concat] expected at least one input");
  const Shape& first = inputs[0].shape;
  BRAID_CHECK(first.rank() >= 1, ShapeError, "[concat] expected inputs of shape [...,C], got a scalar");
  const int axis = attributes_.axis;
  BRAID_CHECK(axis >= -1 && axis < first.rank(), ShapeError, "[concat] expected an axis below ", first.rank(), ", got ",
              axis);
  std::int64_t extent = 0;
  for (const ValueDesc& input : inputs) {
    check_floating(name(), "an input", input);
    check_dtype(name(), "an input", input, inputs[0].dtype);
    check_agreement(name(), first, input.shape, axis);
    extent += input.shape[axis];
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = first.with(axis, extent)});
}

OpAxes Concat::axes(const NodeValues& node) const {
  return OpAxes::all_but(attributes_.axis, node.outputs[0].shape.rank());
}

void Concat::gradient(GradientContext& context) const {
  const int axis = attributes_.axis;
  std::int64_t begin = 0;
  for (int i = 0; i < context.input_count(); ++i) {
    const Shape shape = context.desc(context.input(i)).shape;
    if (context.needs(i) && (axis == -1 || axis + 1 == shape.rank())) {
      context.set_input_gradient_slice(i, context.output_gradient(0), begin);
    } else if (context.needs(i)) {
      std::vector<std::int64_t> begins(static_cast<std::size_t>(shape.rank()));
      begins[static_cast<std::size_t>(axis)] = begin;
      set_gradient<Window>(context, i, {context.output_gradient(0)}, std::move(begins), shape, 0.0);
    }
    begin += shape[axis];
  }
}

void ChannelSlice::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape& x = inputs[0].shape;
  check_slice(name(), x, attributes_.begin, attributes_.count);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x.with(-1, attributes_.count)});
}

void ChannelSlice::gradient(GradientContext& context) const {
  context.set_input_gradient(0, placed(context, context.output_gradient(0), attributes_.begin, context.input(0)));
}

void SliceSum::gradient(GradientContext& context) const {
  for (int i = 0; i < context.input_count(); ++i) {
    const std::int64_t begin = attributes_.begins[static_cast<std::size_t>(i)];
    if (context.needs(i)) {
      context.set_input_gradient(i, placed(context, context.output_gradient(0), begin, context.input(i)));
    }
  }
}

void SliceSum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const auto& [begins, count] = attributes();
  BRAID_CHECK(!begins.empty(), ShapeError, "[slice_sum] expected at least one input");
  check_inputs(name(), inputs, begins.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_floating(name(), "an input", inputs[i]);
    check_dtype(name(), "an input", inputs[i], inputs[0].dtype);
    check_slice(name(), inputs[i].shape, begins[i], count);
    check_agreement(name(), inputs[0].shape, inputs[i].shape);
  }
  const Shape y = inputs[0].shape.with(-1, count);
  int whole = -1;
  for (std::size_t i = 0; i < inputs.size() && inputs.size() <= kGroup; ++i) {
    if (inputs[i].shape == y) whole = static_cast<int>(i);
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y, .reuses = whole});
}

Work SliceSum::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const double terms = static_cast<double>(inputs.size()), size = static_cast<double>(outputs[0].shape.size());
  return {.flops = (terms - 1) * size, .bytes = (terms + 1) * size * static_cast<double>(size_of(outputs[0].dtype))};
}

}  // namespace braid::ops
