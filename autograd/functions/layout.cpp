#include "autograd/functions/layout.h"

#include <algorithm>
#include <numeric>

#include "autograd/functions/apply.h"
#include "autograd/functions/common.h"
#include "autograd/functions/elementwise.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/reduce.h"
#include "ops/index/gather.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"

namespace braid {

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
  return reshape(x, {shape[0], shape.size_between(1, shape.rank())});
}

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
    rows.push_back(reshape(input, {shape.size_between(0, axis), shape.size_between(axis, shape.rank())}));
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

Tensor squeeze(const Tensor& x, int axis) {
  const Shape shape = x.shape();
  axis = axis_of("squeeze", x, axis);
  return shape[axis] == 1 ? reshape(x, ops::reduced_shape(shape, Shape{axis}, false)) : x;
}

Tensor squeeze(const Tensor& x) {
  const Shape shape = x.shape();
  std::vector<std::int64_t> extents = extents_of(shape);
  std::erase(extents, 1);
  return view(x, Shape(extents));
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const Shape shape = x.shape();
  BRAID_CHECK(axis >= -shape.rank() - 1 && axis <= shape.rank(), ShapeError, "[unsqueeze] expected an axis from ",
              -shape.rank() - 1, " to ", shape.rank(), " for an input of shape ", shape, ", got ", axis);
  std::vector<std::int64_t> extents = extents_of(shape);
  extents.insert(extents.begin() + (axis < 0 ? axis + shape.rank() + 1 : axis), 1);
  return reshape(x, Shape(extents));
}

Tensor expand(const Tensor& x, const std::vector<std::int64_t>& extents) {
  const Shape of_x = x.shape();
  std::vector<std::int64_t> full = extents;
  const auto lacking = static_cast<std::ptrdiff_t>(full.size()) - of_x.rank();
  for (std::ptrdiff_t i = 0; i < std::ssize(full); ++i) {
    std::int64_t& extent = full[static_cast<std::size_t>(i)];
    if (extent == -1 && i >= lacking) extent = of_x[static_cast<int>(i - lacking)];
  }
  const Shape shape(full);
  return called("expand", [&] {
    BRAID_CHECK(lacking >= 0 && ops::broadcast_shape("expand", of_x, shape) == shape, ShapeError,
                "[expand] expected a shape that ", of_x, " broadcasts to, got ", shape);
    return of_x == shape ? x : apply_op(std::make_shared<ops::Elementwise>(ops::Expression{}, shape), {x});
  });
}

Tensor stack(std::span<const Tensor> inputs, int axis) {
  BRAID_CHECK(!inputs.empty(), ShapeError, "[stack] expected at least one input");
  const int rank = inputs[0].shape().rank();
  std::vector<Tensor> parts;
  for (const Tensor& input : inputs) parts.push_back(called("stack", [&] { return unsqueeze(input, axis); }));
  return called("stack", [&] { return concat(parts, axis < 0 ? axis + rank + 1 : axis); });
}

namespace {

Tensor gather_by(const Tensor& x, int axis, const Tensor& index) {
  return apply_op(std::make_shared<ops::Gather>(axis, ops::GatherAttributes::kEveryIndex), {x, index});
}

/// The shape of a list of places along an axis of x, which are the same along all others.
Shape list_along(const Tensor& x, int axis, std::int64_t extent) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(x.shape().rank()), 1);
  extents[static_cast<std::size_t>(axis)] = extent;
  return Shape(extents);
}

/// The element that lies at a place outside of [0, extent).
std::int64_t mirrored(std::int64_t place, std::int64_t extent, PadMode mode) {
  if (mode == PadMode::circular) return (place + extent) % extent;
  if (mode == PadMode::replicate) return std::clamp<std::int64_t>(place, 0, extent - 1);
  return place < 0 ? -place : place < extent ? place : 2 * (extent - 1) - place;
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  axis = axis_of("gather", x, axis);
  const Shape wanted = index.shape();
  BRAID_CHECK(wanted.rank() == x.shape().rank(), ShapeError, "[gather] expected an index of the rank of ", x.shape(),
              ", got ", wanted);
  Tensor part = x;
  for (int i = 0; i < wanted.rank(); ++i) {
    BRAID_CHECK(i == axis || wanted[i] <= x.shape()[i], ShapeError, "[gather] expected an index of at most ",
                x.shape()[i], " elements along axis ", i, " (input is ", x.shape(), "), got ", wanted);
    if (i != axis) part = slice(part, i, 0, wanted[i]);
  }
  return gather_by(part, axis, index);
}

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  axis = axis_of("index_select", x, axis);
  BRAID_CHECK(index.shape().rank() == 1, ShapeError, "[index_select] expected a list of indices, got ", index.shape());
  return called("index_select",
                [&] { return gather_by(x, axis, reshape(index, list_along(x, axis, index.shape()[0]))); });
}

Tensor select_places(const Tensor& x, int axis, const std::vector<std::int32_t>& places) {
  const Tape::Guard guard(x.tape());
  return gather_by(x, axis, Tensor(Array::from(places, list_along(x, axis, std::ssize(places)))));
}

Tensor embedding(const Tensor& index, const Tensor& weight) {
  BRAID_CHECK(weight.shape().rank() == 2, ShapeError, "[embedding] expected a weight of shape [V,C], got ",
              weight.shape());
  std::vector<std::int64_t> extents = extents_of(index.shape());
  extents.push_back(weight.shape()[1]);
  return called("embedding", [&] {
    return view(gather_by(weight, 0, reshape(index, {index.shape().size(), 1})), Shape(extents));
  });
}

/// The sum of ones that have the same index.
Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype) {
  return called("one_hot",
                [&] { return one_hot_or_nothing(index, classes, dtype, ops::GatherAttributes::kEveryIndex); });
}

Tensor one_hot_or_nothing(const Tensor& index, std::int64_t classes, DType dtype, std::int64_t nothing) {
  const Tensor places = unsqueeze(index, -1);
  const OpPtr fill = std::make_shared<ops::Fill>(ValueDesc{computed_in(dtype), places.shape()}, 1.0);
  const Tensor ones = index.tape().tensor(index.tape().record(fill, {}));
  const ops::GatherAttributes along{places.shape().rank() - 1, nothing};
  return cast(apply_op(std::make_shared<ops::ScatterSum>(along, classes), {ones, places}), dtype);
}

Tensor flip(const Tensor& x, std::span<const int> axes) {
  Tensor y = x;
  for (int axis : axes) {
    axis = axis_of("flip", x, axis);
    std::vector<std::int32_t> places(static_cast<std::size_t>(x.shape()[axis]));
    std::iota(places.rbegin(), places.rend(), 0);
    y = select_places(y, axis, places);
  }
  return y;
}

Tensor pad(const Tensor& x, std::span<const Padding> paddings, PadMode mode) {
  const Shape shape = x.shape();
  BRAID_CHECK(std::ssize(paddings) == shape.rank(), ShapeError, "[pad] expected paddings for ", shape.rank(),
              " axes (input is ", shape, "), got ", paddings.size());
  Tensor y = x;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto [before, after] = paddings[static_cast<std::size_t>(axis)];
    if (before == 0 && after == 0) continue;
    const std::int64_t extent = shape[axis];
    const std::int64_t most = mode == PadMode::reflect    ? extent - 1
                              : mode == PadMode::circular ? extent
                                                          : Shape::kMaxExtent;
    BRAID_CHECK(before >= 0 && after >= 0 && before <= most && after <= most && extent > 0, ShapeError,
                "[pad] expected paddings between 0 and ", most, " along axis ", axis, " of ", shape, ", got ", before,
                " and ", after);
    std::vector<std::int32_t> places;
    for (std::int64_t i = -before; i < extent + after; ++i) {
      places.push_back(static_cast<std::int32_t>(mirrored(i, extent, mode)));
    }
    y = select_places(y, axis, places);
  }
  return y;
}

}  // namespace braid
