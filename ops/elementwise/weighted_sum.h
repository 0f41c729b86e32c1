#pragma once
// A sum with learned gates, with which a node of a randomly wired network (Xie et al., 2019, section 3) combines its
// inputs.

#include "core/graph/op.h"

namespace braid::ops {

/// weights [n], then n ≥ 1 inputs of equal shape → y = Σ sigmoid(wᵢ)·xᵢ, added from the first to the last.
/// Throws ShapeError if the shapes do not agree.
class WeightedSum final : public OpWith<WeightedSum> {
 public:
  std::string_view name() const override { return "weighted_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"_,*->*"}; }
};

/// dy, weights [n], x₀ … → dweights [n], dx₀ …. One node, so that dy is read once for all inputs.
class WeightedSumBackward final : public OpWith<WeightedSumBackward> {
 public:
  std::string_view name() const override { return "weighted_sum_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"*,_,*->_,*"}; }
};

}  // namespace braid::ops
