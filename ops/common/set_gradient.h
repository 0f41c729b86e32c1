#pragma once
// How most gradient rules are stated: another op computes the gradient of an input.

#include "core/graph/op.h"

namespace braid::ops {

/// Records an Op with these attributes, whose first output is the gradient of input i. Nothing if none is needed.
template <class Op, class... Attributes>
void set_gradient(GradientContext& context, int i, std::initializer_list<ValueId> inputs, Attributes&&... attributes) {
  if (!context.needs(i)) return;
  context.set_input_gradient(i, context.record(std::make_shared<Op>(std::forward<Attributes>(attributes)...), inputs));
}

}  // namespace braid::ops
