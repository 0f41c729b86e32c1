#pragma once
// Copies move units, whatever the elements are: as many bytes at once as addresses and extents allow.

#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

/// The unit of a copy.
template <std::size_t kBytes>
struct alignas(kBytes) Unit {
  unsigned char bytes[kBytes];
};

/// Calls f(Unit<…>{}) with the largest unit that divides a number.
template <class F>
void with_unit(std::uintptr_t bits, const F& f) {
  if (bits % 16 == 0) return f(Unit<16>{});
  if (bits % 8 == 0) return f(Unit<8>{});
  if (bits % 4 == 0) return f(Unit<4>{});
  if (bits % 2 == 0) return f(Unit<2>{});
  f(Unit<1>{});
}

}  // namespace braid::cuda
