#include "core/graph/layout.h"

#include <algorithm>

namespace braid {

bool Division::any(Layout layout) const { return std::ranges::find(layouts, layout) != layouts.end(); }

Shape Division::rows_of(const Shape& shape) const {
  const auto extents = shape.extents();
  std::vector<std::int64_t> part(extents.begin(), extents.end());
  part.front() /= shards;
  return Shape(part);
}

}  // namespace braid
