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

/// Op::for_part of an op with windows, or of its gradient: the same op without padding along 'h' or 'w'.
template <class Op>
OpPtr without_padding(const Op& op, const Shape& output, char axis) {
  auto attributes = op.attributes();
  const auto remove = [&](auto& options) {
    if (axis == 'h') options.padding.h = 0;
    if (axis == 'w') options.padding.w = 0;
  };
  if constexpr (requires { attributes.options; }) {
    attributes.shape = output;
    remove(attributes.options);
  } else {
    remove(attributes);
  }
  return std::make_shared<Op>(attributes);
}

}  // namespace braid
