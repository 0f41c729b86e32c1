#pragma once
// A pair of extents over height and width, as strides, paddings and windows use.

#include <array>
#include <cstdint>
#include <ostream>

namespace braid {

struct Extent2d {
  std::int64_t h = 1;
  std::int64_t w = 1;
  constexpr Extent2d() = default;
  /// Implicit, so that `stride = 2` means both.
  constexpr Extent2d(std::int64_t both) : h(both), w(both) {}
  constexpr Extent2d(std::int64_t height, std::int64_t width) : h(height), w(width) {}
  friend bool operator==(const Extent2d&, const Extent2d&) = default;
  constexpr std::array<std::int64_t, 2> extents() const { return {h, w}; }
};

inline std::ostream& operator<<(std::ostream& out, const Extent2d& e) { return out << e.h << 'x' << e.w; }

}  // namespace braid
