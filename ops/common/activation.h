#pragma once

namespace braid {

/// What follows a layer in the same node: nothing, max(x, 0), or min(max(x, 0), 6).
enum class Activation { none, relu, relu6 };

}  // namespace braid
