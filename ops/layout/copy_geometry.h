#pragma once
// The sources of the elements of a permuted, cut or padded tensor, for kernels of both backends: y[i] is x[offset + Σ
// stride·i] where every index lies in [low, high) of its axis, else a constant.

#include "core/graph/op.h"

namespace braid {

struct CopyAxis {
  std::int64_t extent = 1;
  std::int64_t stride = 0;  ///< in x
  std::int64_t low = 0, high = 1;
};

/// Strides and offset count units: elements, or several neighbours that are copied at once.
struct CopyGeometry {
  static constexpr std::int64_t kMostBytes = 16;  // largest unit

  CopyAxis axes[Shape::kMaxRank];  ///< from the outermost to the innermost; at least one
  int rank = 0;
  std::int64_t offset = 0;
  std::int64_t unit = 1;        ///< bytes
  std::byte value[kMostBytes];  ///< the constant, repeated

  CopyAxis& inner() { return axes[rank - 1]; }
  const CopyAxis& inner() const { return axes[rank - 1]; }
  /// Product of the extents of all axes but the innermost.
  std::int64_t rows() const;
  /// The same copy in units as large as addresses and extents allow.
  CopyGeometry with_largest_units(const void* x, const void* y) const;
};

/// The geometry of a permute or a window. Axes that are contiguous in both x and y are merged.
CopyGeometry copy_geometry(const Op& op, const ValueDesc& x, const ValueDesc& y);

}  // namespace braid
