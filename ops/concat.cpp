#include "ops/concat.h"

#include "ops/check.h"

namespace braid::ops {

namespace {

Shape with_channels(const Shape& shape, std::int64_t channels) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents.back() = channels;
  return Shape(extents);
}

}  // namespace

void Concat::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty(), ShapeError, "[concat] expected at least one input");
  const Shape& first = inputs[0].shape;
  BRAID_CHECK(first.rank() >= 1, ShapeError, "[concat] expected inputs of shape [...,C], got a scalar");
  std::int64_t channels = 0;
  for (const ValueDesc& input : inputs) {
    check_floating(name(), "an input", input);
    check_dtype(name(), "an input", input, inputs[0].dtype);
    const Shape& shape = input.shape;
    BRAID_CHECK(shape.rank() == first.rank() && with_channels(shape, 0) == with_channels(first, 0), ShapeError,
                "[concat] expected inputs that agree in all but the last dimension, got ", first, " and ", shape);
    channels += shape[shape.rank() - 1];
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = with_channels(first, channels)});
}

void Concat::gradient(GradientContext& context) const {
  std::int64_t begin = 0;
  for (int i = 0; i < context.input_count(); ++i) {
    const Shape shape = context.desc(context.input(i)).shape;
    const std::int64_t count = shape[shape.rank() - 1];
    if (context.needs(i)) {
      context.set_input_gradient(
          i, context.emit(std::make_shared<ChannelSlice>(begin, count), {context.output_gradient(0)}));
    }
    begin += count;
  }
}

void ChannelSlice::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x.rank() >= 1 && begin_ >= 0 && count_ >= 0 && begin_ + count_ <= x[x.rank() - 1], ShapeError,
              "[channel_slice] channels ", begin_, " to ", begin_ + count_, " are not all in an input of shape ", x);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = with_channels(x, count_)});
}

}  // namespace braid::ops
