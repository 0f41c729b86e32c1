#pragma once
// Attributes of ops whose output shape does not follow from their inputs, such as gradients.

#include "core/graph/op.h"

namespace braid {

struct ShapeAttribute {
  Shape shape;
  static constexpr std::string_view kNames[] = {"shape"};
};

/// The attributes of the gradient of an op with these options, with respect to an input of this shape.
template <class Options>
struct GradientOf {
  Options options;
  Shape shape;
  static constexpr std::string_view kNames[] = {"options", "shape"};
};

}  // namespace braid
