#include "ops/layout/strided_copy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/layout/copy_geometry.h"

namespace braid {

namespace {

/// Repeats a number as an element of the type until the bytes are full.
void fill_with(double number, DType dtype, std::span<std::byte> bytes) {
  const auto fill = [&](auto element) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof element) std::memcpy(&bytes[i], &element, sizeof element);
  };
  switch (dtype) {
    case DType::f32: return fill(static_cast<float>(number));
    case DType::f64: return fill(number);
    case DType::f16: return fill(Half(static_cast<float>(number)));
    case DType::bf16: return fill(BFloat16(static_cast<float>(number)));
    case DType::i32: return fill(static_cast<std::int32_t>(number));
    case DType::u8: return fill(static_cast<std::uint8_t>(number));
  }
}

bool holds(DType dtype, double number) {
  if (is_floating(dtype)) return true;
  const double least = dtype == DType::u8 ? 0 : -0x1p31, most = dtype == DType::u8 ? 255 : 0x1p31 - 1;
  return number == std::floor(number) && number >= least && number <= most;
}

}  // namespace

CopyGeometry copy_geometry(const Op& op, const ValueDesc& x, const ValueDesc& y) {
  const auto* permute = dynamic_cast<const ops::Permute*>(&op);
  const auto* window = dynamic_cast<const ops::Window*>(&op);
  std::int64_t strides[Shape::kMaxRank], stride = 1;
  for (int axis = x.shape.rank() - 1; axis >= 0; stride *= x.shape[axis--]) strides[axis] = stride;
  CopyGeometry g;
  g.unit = static_cast<std::int64_t>(size_of(x.dtype));
  fill_with(window != nullptr ? window->attributes().value : 0, x.dtype, g.value);
  for (int i = 0; i < y.shape.rank(); ++i) {
    const auto place = static_cast<std::size_t>(i);
    const int source = permute != nullptr ? permute->attributes().axes[place] : i;
    const std::int64_t begin = window != nullptr ? window->attributes().begin[place] : 0, extent = y.shape[i];
    const std::int64_t low = std::clamp<std::int64_t>(-begin, 0, extent);
    const std::int64_t high = std::clamp(x.shape[source] - begin, low, extent);
    const bool whole = low == 0 && high == extent;
    g.offset += begin * strides[source];
    if (extent == 1 && whole) continue;
    if (g.rank > 0 && whole && g.inner().stride == extent * strides[source]) {
      CopyAxis& outer = g.inner();
      outer = {outer.extent * extent, strides[source], outer.low * extent, outer.high * extent};
    } else {
      g.axes[g.rank++] = {extent, strides[source], low, high};
    }
  }
  if (g.rank == 0) g.axes[g.rank++] = {1, 1, 0, 1};
  return g;
}

std::int64_t CopyGeometry::rows() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank - 1; ++i) product *= axes[i].extent;
  return product;
}

CopyGeometry CopyGeometry::with_largest_units(const void* x, const void* y) const {
  CopyGeometry wide = *this;
  const auto addresses = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y);
  while (wide.unit < kMostBytes && inner().stride == 1 && addresses % static_cast<std::uintptr_t>(2 * wide.unit) == 0) {
    CopyAxis& along = wide.inner();
    std::int64_t bits = along.extent | along.low | along.high | wide.offset;
    for (int i = 0; i < rank - 1; ++i) bits |= wide.axes[i].stride;
    if (bits % 2 != 0) break;
    for (std::int64_t* of_units : {&along.extent, &along.low, &along.high, &wide.offset}) *of_units /= 2;
    for (int i = 0; i < rank - 1; ++i) wide.axes[i].stride /= 2;
    wide.unit *= 2;
  }
  return wide;
}

namespace ops {

void Permute::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape& x = inputs[0].shape;
  const std::vector<int>& axes = attributes_.axes;
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < x.rank(); ++axis) {
    BRAID_CHECK(std::ssize(axes) == x.rank() && std::ranges::count(axes, axis) == 1, ShapeError, "[", name(),
                "] expected each axis of an input of shape ", x, " once: ", *this);
    extents.push_back(x[axes[static_cast<std::size_t>(axis)]]);
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = Shape(extents)});
}

void Permute::gradient(GradientContext& context) const {
  std::vector<int> inverse(attributes_.axes.size());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    inverse[static_cast<std::size_t>(attributes_.axes[i])] = static_cast<int>(i);
  }
  set_gradient<Permute>(context, 0, {context.output_gradient(0)}, std::move(inverse));
}

OpAxes Permute::axes(const NodeValues& node) const {
  const std::string x = OpAxes::by_place(node.inputs[0].shape.rank());
  std::string y;
  for (const int axis : attributes_.axes) y += x[static_cast<std::size_t>(axis)];
  return {x + "->" + y};
}

void Window::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const auto& [begin, shape, value] = attributes();
  BRAID_CHECK(inputs[0].shape.rank() == shape.rank() && std::ssize(begin) == shape.rank(), ShapeError, "[", name(),
              "] expected as many dimensions as an input of shape ", inputs[0].shape, ": ", *this);
  BRAID_CHECK(holds(inputs[0].dtype, value), ShapeError, "[", name(), "] ", inputs[0].dtype, " cannot hold ", value);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = shape});
}

void Window::gradient(GradientContext& context) const {
  std::vector<std::int64_t> begin = attributes_.begin;
  for (std::int64_t& place : begin) place = -place;
  const Shape x = context.desc(context.input(0)).shape;
  set_gradient<Window>(context, 0, {context.output_gradient(0)}, std::move(begin), x, 0.0);
}

OpAxes Window::axes(const NodeValues& node) const {
  std::string names = OpAxes::by_place(attributes_.shape.rank());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (attributes_.begin[i] != 0 || attributes_.shape[axis] != node.inputs[0].shape[axis]) names[i] = '_';
  }
  return {names + "->" + names};
}

}  // namespace ops
}  // namespace braid
