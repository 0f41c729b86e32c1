#pragma once
// The arithmetic of compression (ops/common/arithmetic.h).

#include <cstring>
#include <type_traits>

#include "ops/common/arithmetic.h"

namespace braid::arithmetic {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Orders numbers by magnitude: a NaN is the largest.
template <class T>
BRAID_HOST_DEVICE Bits<T> magnitude_bits(T x) {
  Bits<T> bits;
  memcpy(&bits, &x, sizeof x);  // not std::memcpy, which device code may not call
  return bits & (~Bits<T>{0} >> 1);
}
template <class T>
BRAID_HOST_DEVICE T from_bits(Bits<T> bits) {
  T x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// The place of random choice `i` of `count` among `length` elements: one in each of `count` equal parts of them. The
/// same on all shards.
BRAID_HOST_DEVICE inline std::int64_t random_place(std::int32_t step, std::int64_t block, std::int64_t i,
                                                   std::int64_t count, std::int64_t length) {
  const PhiloxBlock draw =
      philox(static_cast<std::uint64_t>(block), static_cast<std::uint32_t>(step), static_cast<std::uint64_t>(i));
  const std::int64_t begin = i * length / count, end = (i + 1) * length / count;
  return begin + static_cast<std::int64_t>(to_unit(draw.x[0]) * static_cast<float>(end - begin));
}

/// What remains of a number: nothing, if the difference is not finite. One bad gradient must not spoil later ones.
template <class T>
BRAID_HOST_DEVICE T remaining(T x, T sent) {
  const T rest = x - sent;
  return is_finite(rest) ? rest : T(0);
}

/// Numbers up to a scale in magnitude, as multiples of scale/127.
template <class T>
struct ByteCode {
  T scale;

  BRAID_HOST_DEVICE std::int8_t encode(T x) const {
    if (!is_finite(scale)) return 127;
    const T code = scale > 0 ? x / scale * 127 : T(0);
    return static_cast<std::int8_t>(code < 0 ? code - T(0.5) : code + T(0.5));
  }
  BRAID_HOST_DEVICE T decode(std::int8_t code) const { return static_cast<T>(code) * (scale / 127); }
};

}  // namespace braid::arithmetic
