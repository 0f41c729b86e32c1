#pragma once
// Group normalisation (Wu and He, 2018): over all pixels and the channels of a group, separately for each image. Layer
// normalisation (Ba et al., 2016) is the same with one pixel and one group, instance normalisation with one channel per
// group.

#include "core/graph/op.h"

namespace braid::ops {

struct GroupNormAttributes {
  std::int64_t groups;
  double epsilon;
  static constexpr std::string_view kNames[] = {"groups", "epsilon"};
};

// Scale, shift and statistics are of the type that x is computed in: f32 for an x of f16 or bf16, else x's own type.

/// x [N,S,C], scale γ [C], shift β [C] → y = γ·(x − μ)/√(σ² + ε) + β like x, μ [N,G], 1/√(σ² + ε) [N,G]; the variance
/// is the biased one. Throws ShapeError if shapes or dtypes do not agree or a group has no element.
class GroupNorm final : public OpWith<GroupNorm, GroupNormAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "group_norm"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"n...,...->n..."}; }
};

/// dy, x, γ, μ, 1/√(σ² + ε) → dx, dγ, dβ.
class GroupNormBackward final : public OpWith<GroupNormBackward> {
 public:
  std::string_view name() const override { return "group_norm_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"n...,n...,_,n...->n...,_"}; }
};

}  // namespace braid::ops
