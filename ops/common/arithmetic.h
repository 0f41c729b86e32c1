#pragma once
// The arithmetic of Braid's own kernels, one functor per formula. CPU and CUDA kernels differ in how they walk over
// memory; what they compute for one element or one channel is here and in the arithmetic.h of families, so tests on the
// CPU exercise what the GPU runs.

#include <cmath>

#include "core/base/random.h"

namespace braid::arithmetic {

/// Whether x is neither infinite nor a NaN.
template <class T>
BRAID_HOST_DEVICE bool is_finite(T x) {
  return x - x == T(0);
}

/// factor·x.
template <class T>
struct Scale {
  T factor;
  BRAID_HOST_DEVICE T operator()(T x) const { return factor * x; }
};

/// 1/(1 + e⁻ˣ); its derivative is s·(1 − s).
BRAID_HOST_DEVICE inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The first of equal maxima wins; a NaN always does, so that it is not lost. T may be a vector.
template <class T>
struct Larger {
  BRAID_HOST_DEVICE auto operator()(T candidate, T best) const { return (candidate > best) | (candidate != candidate); }
};

/// Scale of an element under dropout: 0 or 1/(1 − p). A draw below p drops.
template <class T>
struct DropoutScale {
  float p;
  BRAID_HOST_DEVICE T operator()(std::uint32_t draw) const { return to_unit(draw) < p ? T(0) : T(1) / (T(1) - T(p)); }
};

}  // namespace braid::arithmetic
