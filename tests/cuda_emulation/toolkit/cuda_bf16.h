#pragma once
// Conversions of bfloat16 by those of core/base/dtype.h.

#include "core/base/dtype.h"

struct __nv_bfloat16 {
  unsigned short bits;
};

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline float __bfloat162float(__nv_bfloat16 value) {
  braid::BFloat16 number;
  number.bits = value.bits;
  return static_cast<float>(number);
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {braid::BFloat16(value).bits}; }
