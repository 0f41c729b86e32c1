#pragma once
// Conversions of binary16 by those of core/base/dtype.h.

#include "core/base/dtype.h"

struct __half {
  unsigned short bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float __half2float(__half value) {
  braid::Half half;
  half.bits = value.bits;
  return static_cast<float>(half);
}
inline __half __float2half_rn(float value) { return {braid::Half(value).bits}; }
