#include "ops/optimizer/clip_factor.h"

#include <cmath>

#include "ops/common/check.h"

namespace braid::ops {

ClipFactor::ClipFactor(const ClipOptions& options) : OpWith(options) {
  BRAID_CHECK(std::isfinite(options.max_norm) && options.max_norm > 0, Error,
              "[clip_factor] expected a max_norm above 0, got ", options.max_norm);
}

void ClipFactor::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(inputs.size() > scalars(), ShapeError, "[", name(), "] expected ", scalars(),
              " scalars and at least one gradient, got ", inputs.size(), " inputs");
  if (attributes_.scaled) check_value(name(), "a gradient's factor", inputs[0], {DType::f64, {}});
  for (const ValueDesc& gradient : inputs.subspan(scalars())) check_floating(name(), "a gradient", gradient);
  outputs.assign(2, {.dtype = DType::f64, .shape = {}});
}

}  // namespace braid::ops
