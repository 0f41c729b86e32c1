#include "core/base/shape.h"

#include <ostream>

namespace braid {

Shape::Shape(std::span<const std::int64_t> extents) {
  BRAID_CHECK(extents.size() <= kMaxRank, ShapeError, "[shape] expected at most ", kMaxRank, " dimensions, got ",
              extents.size());
  std::int64_t product = 1;  // product of extents above 0, so that no partial product is larger
  bool fits = true;
  for (const std::int64_t extent : extents) {
    BRAID_CHECK(extent >= 0, ShapeError, "[shape] expected extents of at least 0, got ", extent);
    if (extent > 0 && fits) fits = extent <= kMaxExtent && product <= kMaxSize / extent;
    if (extent > 0 && fits) product *= extent;
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  BRAID_CHECK(fits, ShapeError, "[shape] expected extents of at most ", kMaxExtent, " and at most ", kMaxSize,
              " elements, got ", *this);
}

void Shape::throw_no_axis(int axis) const {
  throw ShapeError(message("[shape] ", *this, " has no axis ", axis,
                           rank_ == 0 ? ": it is a scalar" : message(": expected ", -rank_, " to ", rank_ - 1)));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int axis = 0; axis < shape.rank(); ++axis) out << (axis == 0 ? "" : ",") << shape[axis];
  return out << ']';
}

}  // namespace braid
