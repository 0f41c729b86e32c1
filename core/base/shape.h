#pragma once
// The extents of a tensor, held inline: recording a node must not allocate. Images are [N,H,W,C], filters [K,R,S,C].

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

#include "core/base/error.h"

namespace braid {

class Shape {
 public:
  static constexpr int kMaxRank = 6;
  /// Sizes in bytes, and sums of extents with options of ops, stay within 64 bits.
  static constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40, kMaxSize = std::int64_t{1} << 59;

  /// A scalar: rank 0, one element.
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  /// Throws ShapeError on more than kMaxRank extents, on negative ones, or if one or their product is too large.
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  /// Negative axes count from the end: -1 is the last. Throws ShapeError if there is none.
  std::int64_t operator[](int axis) const { return extents_[place_of(axis)]; }
  /// The same with another extent along an axis.
  Shape with(int axis, std::int64_t extent) const {
    Shape changed = *this;
    changed.extents_[place_of(axis)] = extent;
    return Shape(changed.extents());
  }
  std::span<const std::int64_t> extents() const& { return {extents_.data(), static_cast<std::size_t>(rank_)}; }
  void extents() && = delete;  // they would dangle
  /// Number of elements; 1 for a scalar.
  std::int64_t size() const { return size_between(0, rank_); }
  /// Product of extents [begin, end), which count from the first; 1 if there are none.
  std::int64_t size_between(int begin, int end) const {
    std::int64_t product = 1;
    for (int axis = begin; axis < end; ++axis) product *= extents_[static_cast<std::size_t>(axis)];
    return product;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::size_t place_of(int axis) const {
    if (axis < -rank_ || axis >= rank_) throw_no_axis(axis);
    return static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis);
  }
  [[noreturn]] void throw_no_axis(int axis) const;

  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Prints "[16,28,28,32]".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace braid
