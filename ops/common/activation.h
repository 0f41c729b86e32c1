#pragma once

#include <limits>
#include <string_view>

#include "core/base/random.h"

namespace braid {

/// The activation of a layer in the same node: none, max(x, 0), or min(max(x, 0), 6).
enum class Activation { none, relu, relu6 };

constexpr std::string_view name_of(Activation activation) {
  constexpr std::string_view kNames[] = {"none", "relu", "relu6"};
  return kNames[static_cast<int>(activation)];
}

/// Every activation keeps a value within a range. A NaN stays a NaN.
struct ActivationRange {
  float least, most;

  template <class T>
  BRAID_HOST_DEVICE constexpr T operator()(T x) const {
    return x < T(least) ? T(least) : x > T(most) ? T(most) : x;
  }
};

constexpr ActivationRange range_of(Activation activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {activation == Activation::none ? -kInfinity : 0, activation == Activation::relu6 ? 6 : kInfinity};
}

/// The gradient of relu and relu6, from their output. Also right from their input, because they are the identity
/// wherever they pass a gradient. A NaN lets it pass, as in PyTorch.
struct ActivationGradient {
  float most;  ///< or NaN, which not even infinity reaches

  template <class T>
  BRAID_HOST_DEVICE constexpr T operator()(T dy, T y) const {
    return y <= T(0) || y >= T(most) ? T(0) : dy;
  }
};

constexpr ActivationGradient gradient_of(Activation activation) {
  return {activation == Activation::relu6 ? 6 : std::numeric_limits<float>::quiet_NaN()};
}

}  // namespace braid
