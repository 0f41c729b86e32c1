#include "ops/index/top_k.h"

#include <cmath>

#include "ops/common/check.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/gather.h"

namespace braid::ops {

void TopK::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  check_floating(name(), "an input", inputs[0]);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x.rank() >= 1 && attributes_.k >= 0 && attributes_.k <= x[-1], ShapeError,
              "[top_k] expected k between 0 and the last extent of the input, got ", attributes_.k, " (input is ", x,
              ")");
  const Shape y = x.with(-1, attributes_.k);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = y});
  outputs.push_back({.dtype = DType::i32, .shape = y});
}

/// The elements of a row, compared with about as many of the chosen as a binary search looks at.
Work TopK::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const double elements = static_cast<double>(inputs[0].shape.size());
  return Op::work(inputs, outputs).with_flops(elements * std::log2(2 + static_cast<double>(attributes_.k)));
}

void TopK::gradient(GradientContext& context) const {
  const ValueId dy = context.output_gradient(0);
  if (dy == kNoValue || !context.needs(0)) return;
  const auto [dtype, x] = context.desc(context.input(0));
  const GatherAttributes along{x.rank() - 1, GatherAttributes::kEveryIndex};
  const ValueId dx = context.record(std::make_shared<ScatterSum>(along, x[-1]),
                                    {cast(context, dy, computed_in(dtype)), context.output(1)});
  context.set_input_gradient(0, cast(context, dx, dtype));
}

}  // namespace braid::ops
