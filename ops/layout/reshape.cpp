#include "ops/layout/reshape.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"

namespace braid::ops {

void Reshape::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const Shape &x = inputs[0].shape, &y = attributes_.shape;
  BRAID_CHECK(x.size() == y.size(), ShapeError, "[reshape] expected ", y.size(), " elements for shape ", y, ", got ",
              x.size(), " (input is ", x, ")");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y, .views = 0});
}

void Reshape::gradient(GradientContext& context) const {
  set_gradient<Reshape>(context, 0, {context.output_gradient(0)}, context.desc(context.input(0)).shape);
}

}  // namespace braid::ops
