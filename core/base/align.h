#pragma once

#include <concepts>
#include <cstdint>

namespace braid {

/// The smallest multiple of `alignment` that is at least `bytes`.
template <std::integral T>
constexpr T align_up(T bytes, T alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// value / by, rounded up. Neither is negative.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace braid
