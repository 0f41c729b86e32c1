#include "core/graph/layout.h"

#include <algorithm>

namespace braid {

bool Division::any(Layout layout) const { return std::ranges::find(layouts, layout) != layouts.end(); }

Shape Division::rows_of(const Shape& shape) const { return shape.with(0, shape[0] / shards); }

}  // namespace braid
