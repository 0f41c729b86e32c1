#pragma once
// Checks that shape inference of several ops shares.

#include "core/graph/op.h"
#include "ops/common/extent.h"

namespace braid {

/// Throws ShapeError unless the op got exactly `count` inputs.
inline void check_inputs(std::string_view op, std::span<const ValueDesc> inputs, std::size_t count) {
  BRAID_CHECK(inputs.size() == count, ShapeError, "[", op, "] expected ", count, " inputs, got ", inputs.size());
}

/// Throws ShapeError if an option is so large that sums and products with extents could leave 64 bits.
inline void check_option(std::string_view op, std::string_view what, Extent2d option) {
  constexpr std::int64_t kMost = 1 << 22;
  BRAID_CHECK(option.h <= kMost && option.w <= kMost, ShapeError, "[", op, "] expected ", what, " of at most ", kMost,
              ", got ", option);
}

/// Throws ShapeError unless the input has the rank; `layout` says what the dimensions mean, as "[N,H,W,C]".
inline void check_rank(std::string_view op, std::string_view what, const ValueDesc& desc, int rank,
                       std::string_view layout) {
  BRAID_CHECK(desc.shape.rank() == rank, ShapeError, "[", op, "] expected ", what, " of shape ", layout, ", got ",
              desc.shape);
}

inline void check_shape(std::string_view op, std::string_view what, const ValueDesc& desc, const Shape& shape) {
  BRAID_CHECK(desc.shape == shape, ShapeError, "[", op, "] expected ", what, " of shape ", shape, ", got ", desc.shape);
}

inline void check_dtype(std::string_view op, std::string_view what, const ValueDesc& desc, DType dtype) {
  BRAID_CHECK(desc.dtype == dtype, ShapeError, "[", op, "] expected ", what, " of ", dtype, ", got ", desc.dtype);
}

/// Throws ShapeError unless shape and dtype are those of `expected`.
inline void check_value(std::string_view op, std::string_view what, const ValueDesc& desc, const ValueDesc& expected) {
  check_shape(op, what, desc, expected.shape);
  check_dtype(op, what, desc, expected.dtype);
}

inline void check_floating(std::string_view op, std::string_view what, const ValueDesc& desc) {
  BRAID_CHECK(is_floating(desc.dtype), ShapeError, "[", op, "] expected ", what, " of a floating type, got ",
              desc.dtype);
}

}  // namespace braid
