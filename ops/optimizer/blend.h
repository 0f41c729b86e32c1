#pragma once
// Blends many tensors into as many others at once: sums of gradients over several steps, and averages of weights.

#include "core/graph/op.h"

namespace braid::ops {

/// Coefficients (a, b), f64 [2]; then pairs of a tensor y of any type that is computed in and an x of the same shape,
/// which may be of a type that is computed in y's → the next version of every y: a·y + b·x, or b·x if a is 0, whatever
/// y is.
class Blend final : public OpWith<Blend> {
 public:
  std::string_view name() const override { return "blend"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  std::optional<Divided> divide(const Division& node) const override { return divide_by_tensors(node, 1); }
};

}  // namespace braid::ops
