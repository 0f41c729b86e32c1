#pragma once

#include <string_view>

namespace braid {

/// What follows a layer in the same node: nothing, max(x, 0), or min(max(x, 0), 6).
enum class Activation { none, relu, relu6 };

constexpr std::string_view name_of(Activation activation) {
  constexpr std::string_view kNames[] = {"none", "relu", "relu6"};
  return kNames[static_cast<int>(activation)];
}

}  // namespace braid
