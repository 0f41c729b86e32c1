#pragma once

#include <limits>
#include <string_view>

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

  constexpr float operator()(float x) const { return x < least ? least : x > most ? most : x; }
};

constexpr ActivationRange range_of(Activation activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {activation == Activation::none ? -kInfinity : 0, activation == Activation::relu6 ? 6 : kInfinity};
}

}  // namespace braid
