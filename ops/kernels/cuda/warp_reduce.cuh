#pragma once
// Reductions over the lanes of a warp, always in the same order. Every lane gets the result.

#include "ops/common/arithmetic.h"

namespace braid::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;

template <class T>
__device__ T warp_sum(T value) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(kAllLanes, value, lanes);
  return value;
}

template <class T>
__device__ T warp_maximum(T value) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, lanes);
    value = arithmetic::Larger<T>{}(other, value) ? other : value;
  }
  return value;
}

}  // namespace braid::cuda
