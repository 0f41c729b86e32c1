#include "ops/optimizer/blend.h"

#include "ops/common/check.h"
#include "ops/common/divide.h"

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

/// The y are in pieces, or none is; an x may be, and is then gathered.
std::optional<Divided> Blend::divide(const Division& node) const {
  return node.layouts[1] == Layout::pieces ? divided_by_pieces(node, 1) : std::nullopt;
}

}  // namespace braid::ops
