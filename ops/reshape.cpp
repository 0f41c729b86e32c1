#include "ops/reshape.h"

#include "ops/common/check.h"

namespace braid::ops {

void Reshape::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape &x = inputs[0].shape, &y = attributes_.shape;
  BRAID_CHECK(x.size() == y.size(), ShapeError, "[reshape] expected ", y.size(), " elements for shape ", y, ", got ",
              x.size(), " (input is ", x, ")");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y, .views = 0});
}

void Reshape::gradient(GradientContext& context) const {
  const Shape shape = context.desc(context.input(0)).shape;
  context.set_input_gradient(0, context.emit(std::make_shared<Reshape>(shape), {context.output_gradient(0)}));
}

}  // namespace braid::ops
