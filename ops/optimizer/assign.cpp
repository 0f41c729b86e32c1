#include "ops/optimizer/assign.h"

#include "ops/common/check.h"

namespace braid::ops {

void Assign::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty() && inputs.size() % 2 == 0, ShapeError, "[assign] expected pairs of tensors, got ",
              inputs.size(), " inputs");
  for (std::size_t i = 0; i < inputs.size(); i += 2) {
    check_value(name(), "a new value", inputs[i + 1], inputs[i]);
    outputs.push_back({.dtype = inputs[i].dtype, .shape = inputs[i].shape, .overwrites = static_cast<int>(i)});
  }
}

}  // namespace braid::ops
