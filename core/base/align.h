#pragma once

#include <concepts>

namespace braid {

/// The smallest multiple of `alignment` that is at least `bytes`.
template <std::integral T>
constexpr T align_up(T bytes, T alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace braid
