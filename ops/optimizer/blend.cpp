#include "ops/optimizer/blend.h"

#include "ops/common/check.h"

namespace braid::ops {

void Blend::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(inputs.size() > 1 && inputs.size() % 2 == 1, ShapeError, "[", name(),
              "] expected coefficients and pairs of tensors, got ", inputs.size(), " inputs");
  check_value(name(), "coefficients", inputs[0], {DType::f64, {2}});
  for (std::size_t i = 1; i < inputs.size(); i += 2) {
    const ValueDesc &y = inputs[i], &x = inputs[i + 1];
    check_floating(name(), "a tensor", x);
    check_value(name(), "a tensor", y, {computed_in(x.dtype), x.shape});
    outputs.push_back({.dtype = y.dtype, .shape = y.shape, .overwrites = static_cast<int>(i)});
  }
}

}  // namespace braid::ops
