#include "core/graph/array.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/base/text_stream.h"

namespace braid {

Array::Array(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  const std::size_t bytes = size_of(dtype) * static_cast<std::size_t>(shape.size());
  // Unlike new, calloc knows that the pages of a large block are zero already.
  auto* const data = static_cast<std::byte*>(std::calloc(std::max<std::size_t>(bytes, 1), 1));
  if (data == nullptr) {
    throw OutOfMemory(message("[array] cannot allocate ", bytes, " bytes for an array of ", dtype, ' ', shape));
  }
  bytes_.reset(data, std::free);
}

double Array::number(std::int64_t i) const {
  const auto place = static_cast<std::size_t>(i);
  switch (dtype_) {
    case DType::f32: return static_cast<double>(as<float>()[place]);
    case DType::f64: return as<double>()[place];
    case DType::f16: return static_cast<double>(static_cast<float>(as<Half>()[place]));
    case DType::bf16: return static_cast<double>(static_cast<float>(as<BFloat16>()[place]));
    case DType::i32: return as<std::int32_t>()[place];
    case DType::u8: return as<std::uint8_t>()[place];
  }
  return 0;
}

namespace {

constexpr std::int64_t kLong = 1000, kEnds = 3;

/// Prints what begins at element `first` and differs along this axis and later ones, each element as element(i) says.
template <class Element>
void print(std::ostream& out, const Array& array, int axis, std::int64_t first, const Element& element) {
  const int axes = array.shape().rank();
  if (axis == axes) {
    out << element(first);
    return;
  }
  const std::int64_t extent = array.shape()[axis];
  const std::int64_t stride = array.shape().size_between(axis + 1, axes);
  const std::string next = axis == axes - 1 ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
  out << '[';
  for (std::int64_t i = 0; i < extent; ++i) {
    if (i > 0) out << next;
    if (std::max(array.size(), extent) > kLong && extent > 2 * kEnds && i == kEnds) {
      out << "..." << next;
      i = extent - kEnds;
    }
    print(out, array, axis + 1, first + i * stride, element);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Array& array) {
  if (array.data() == nullptr) return out << "an empty array";
  std::size_t width = 0;
  const auto text = [&](std::int64_t i) {
    TextStream stream;
    stream.precision(is_floating(array.dtype()) ? 6 : 10);
    stream << array.number(i);
    width = std::max(width, stream.view().size());
    return stream.str();
  };
  TextStream unaligned;
  print(unaligned, array, 0, 0, text);
  out << array.dtype() << ' ' << array.shape() << (array.shape().rank() > 1 ? '\n' : ' ');
  print(out, array, 0, 0, [&](std::int64_t i) {
    const std::string element = text(i);
    return std::string(width - element.size(), ' ') + element;
  });
  return out;
}

}  // namespace braid
