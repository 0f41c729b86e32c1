#pragma once
// A reduction as kernels see it: every output combines rows of the input that lie `channels` apart, in runs.

#include <cmath>

#include "core/base/random.h"
#include "ops/elementwise/reduce.h"

namespace braid {

/// The axes of a reduction, merged where neighbours are both kept or both reduced: outer kept and outer reduced ones in
/// any order, then one reduced (`run`) and one kept (`channels`). Output k·channels + c combines rows() elements.
struct ReductionAxes {
  struct Outer {
    int rank = 0;
    std::int64_t extent[Shape::kMaxRank] = {};
    std::int64_t stride[Shape::kMaxRank] = {};

    std::int64_t size() const {
      std::int64_t product = 1;
      for (int i = 0; i < rank; ++i) product *= extent[i];
      return product;
    }
    /// The offset of the element at a place in row-major order.
    template <class Index>
    BRAID_HOST_DEVICE std::int64_t offset(Index place) const {
      std::int64_t offset = 0;
      for (int axis = rank - 1; axis >= 0; --axis) {
        const auto length = static_cast<Index>(extent[axis]);
        offset += static_cast<std::int64_t>(place % length) * stride[axis];
        place /= length;
      }
      return offset;
    }
  };
  Outer kept, reduced;
  std::int64_t run = 1;
  std::int64_t channels = 1;
  std::int64_t groups = 1;  ///< elements of the outer kept axes
  std::int64_t rows = 1;    ///< elements that are combined into one

  ReductionAxes(const Shape& shape, const Shape& axes) {
    struct Axis {
      std::int64_t extent, stride;
      bool reduced;
    };
    Axis merged[Shape::kMaxRank];
    int count = 0, next = axes.rank();
    std::int64_t stride = 1;
    for (int axis = shape.rank(); axis-- > 0;) {  // innermost first
      const bool is_reduced = next > 0 && axes[next - 1] == axis;
      next -= is_reduced;
      if (shape[axis] != 1) {
        const bool merges = count > 0 && merged[count - 1].reduced == is_reduced;
        if (!merges) merged[count++] = {1, stride, is_reduced};
        merged[count - 1].extent *= shape[axis];
      }
      stride *= shape[axis];
    }
    int at = 0;
    if (at < count && !merged[at].reduced) channels = merged[at++].extent;
    if (at < count) run = merged[at++].extent;
    for (int i = count; i-- > at;) {
      Outer& outer = merged[i].reduced ? reduced : kept;
      outer.extent[outer.rank] = merged[i].extent;
      outer.stride[outer.rank++] = merged[i].stride;
    }
    groups = kept.size();
    rows = run * reduced.size();
  }
  BRAID_HOST_DEVICE std::int64_t outputs() const { return groups * channels; }
};

namespace arithmetic {

/// Combines two elements, or two partial results.
template <ops::ReduceKind kKind, class T>
BRAID_HOST_DEVICE T combine(T total, T x) {
  if constexpr (kKind == ops::ReduceKind::max) return x > total || x != x ? x : total;
  if constexpr (kKind == ops::ReduceKind::min) return x < total || x != x ? x : total;
  return total + x;
}

/// The initial value, which the first element is combined with.
template <ops::ReduceKind kKind, class T>
BRAID_HOST_DEVICE T neutral() {
  if constexpr (kKind == ops::ReduceKind::max) return static_cast<T>(-INFINITY);
  if constexpr (kKind == ops::ReduceKind::min) return static_cast<T>(INFINITY);
  return T(0);
}

template <ops::ReduceKind kKind, class T>
BRAID_HOST_DEVICE T finish(T total, std::int64_t rows) {
  if constexpr (kKind == ops::ReduceKind::mean) return total / static_cast<T>(rows);
  return total;
}

}  // namespace arithmetic

/// Calls `make.operator()<kind>()`.
template <class Make>
auto for_reduction(ops::ReduceKind kind, const Make& make) {
  switch (kind) {
    case ops::ReduceKind::mean: return make.template operator()<ops::ReduceKind::mean>();
    case ops::ReduceKind::max: return make.template operator()<ops::ReduceKind::max>();
    case ops::ReduceKind::min: return make.template operator()<ops::ReduceKind::min>();
    default: return make.template operator()<ops::ReduceKind::sum>();
  }
}

}  // namespace braid
