#pragma once
// The arithmetic of Braid's own kernels, one functor per formula. CPU and CUDA kernels differ in how they walk over
// memory; what they compute for one element or one channel is here and in the arithmetic.h of families, so tests on the
// CPU exercise what the GPU runs.

#include <cmath>

#include "core/base/random.h"
#include "ops/common/activation.h"

namespace braid::arithmetic {

/// max(x, 0). A NaN stays a NaN.
template <class T>
struct Relu {
  BRAID_HOST_DEVICE T operator()(T x) const { return x < T(0) ? T(0) : x; }
};

/// The gradient of ReLU, from its output. A NaN lets it pass, as in PyTorch.
template <class T>
struct ReluGradient {
  BRAID_HOST_DEVICE T operator()(T dy, T y) const { return y <= T(0) ? T(0) : dy; }
};

/// min(max(x, 0), 6). A NaN stays a NaN.
template <class T>
struct Relu6 {
  BRAID_HOST_DEVICE T operator()(T x) const { return x < T(0) ? T(0) : x > T(6) ? T(6) : x; }
};

/// The gradient of ReLU6, from its output, likewise.
template <class T>
struct Relu6Gradient {
  BRAID_HOST_DEVICE T operator()(T dy, T y) const { return y <= T(0) || y >= T(6) ? T(0) : dy; }
};

/// Applies the activation of a layer in the same node.
template <Activation kActivation, class T>
BRAID_HOST_DEVICE T activate(T x) {
  if constexpr (kActivation == Activation::relu) return Relu<T>{}(x);
  if constexpr (kActivation == Activation::relu6) return Relu6<T>{}(x);
  return x;
}

/// The gradient of the activation, from its output. Also right from its input, because the activations are the identity
/// wherever they pass a gradient.
template <Activation kActivation, class T>
BRAID_HOST_DEVICE T activation_gradient(T dy, T y) {
  if constexpr (kActivation == Activation::relu) return ReluGradient<T>{}(dy, y);
  if constexpr (kActivation == Activation::relu6) return Relu6Gradient<T>{}(dy, y);
  return dy;
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
