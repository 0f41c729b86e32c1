#pragma once
// The extents of a tensor, held inline: recording a node must not allocate. Images are [N,H,W,C], filters [K,R,S,C].

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

#include "core/error.h"

namespace braid {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  /// A scalar: rank 0, one element.
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  /// Throws ShapeError on more than kMaxRank or on negative extents.
  explicit Shape(std::span<const std::int64_t> extents) {
    BRAID_CHECK(extents.size() <= kMaxRank, ShapeError, "[shape] expected at most ", kMaxRank, " dimensions, got ",
                extents.size());
    for (const std::int64_t extent : extents) {
      BRAID_CHECK(extent >= 0, ShapeError, "[shape] expected extents of at least 0, got ", extent);
      extents_[static_cast<std::size_t>(rank_++)] = extent;
    }
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> extents() const& { return {extents_.data(), static_cast<std::size_t>(rank_)}; }
  void extents() && = delete;  // they would be gone before they are read
  /// Number of elements; 1 for a scalar.
  std::int64_t size() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents()) product *= extent;
    return product;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Prints "[16,28,28,32]".
inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int axis = 0; axis < shape.rank(); ++axis) out << (axis == 0 ? "" : ",") << shape[axis];
  return out << ']';
}

}  // namespace braid
