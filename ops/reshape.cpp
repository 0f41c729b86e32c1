#include "ops/reshape.h"

#include "ops/common/check.h"

namespace braid::ops {

void Reshape::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  BRAID_CHECK(inputs[0].shape.size() == shape_.size(), ShapeError, "[reshape] expected ", shape_.size(),
              " elements for shape ", shape_, ", got ", inputs[0].shape.size(), " (input is ", inputs[0].shape, ")");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = shape_, .views = 0});
}

void Reshape::hash(Hash& hash) const { shape_.add_to(hash); }

void Reshape::gradient(GradientContext& context) const {
  if (!context.needs(0)) return;
  const Shape shape = context.desc(context.input(0)).shape;
  context.set_input_gradient(0, context.emit(std::make_shared<Reshape>(shape), {context.output_gradient(0)}));
}

}  // namespace braid::ops
