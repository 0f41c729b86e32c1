#pragma once
// Batch normalisation over all axes but the last (Ioffe and Szegedy, 2015), optionally fused with the residual addition
// and the activation that follow it in residual networks: y = act(γ·(x − μ)/√(σ² + ε) + β [+ residual]). All three are
// bound by memory traffic, so fusing them saves two reads and two writes of an activation.

#include "core/graph/op.h"
#include "ops/common/activation.h"

namespace braid {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running ← (1 − momentum)·running + momentum·batch; the running variance is unbiased
  Activation activation = Activation::none;
  bool add = false;  ///< a residual of x's shape is the last input
  static constexpr std::string_view kNames[] = {"epsilon", "momentum", "activation", "add"};
  friend bool operator==(const BatchNormOptions&, const BatchNormOptions&) = default;
};

struct BatchNormStatisticsOptions {
  double epsilon = 1e-5, momentum = 0.1;  ///< as in BatchNormOptions
  static constexpr std::string_view kNames[] = {"epsilon", "momentum"};
};

namespace ops {

// Per-channel tensors have the type that x is computed in: f32 for an x of f16 or bf16, else x's own type. Tensors of
// x's shape have x's type.

/// Training: x [...,C], γ [C], β [C], running mean [C], running variance [C] (both state), residual if add
/// → y like x, batch mean [C], 1/√(variance + ε) [C], new running mean, new running variance.
/// Throws ShapeError if shapes or dtypes do not agree or there is not more than one element per channel.
class BatchNorm final : public OpWith<BatchNorm, BatchNormOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "batch_norm"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override;
};

/// The same for a shard of the samples, except for the state: the new running statistics are separate tensors.
class ShardBatchNorm final : public OpWith<ShardBatchNorm, BatchNormOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "shard_batch_norm"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  std::optional<Recomputation> recompute() const override;
  /// Along another axis of the mesh, shards are smaller.
  OpAxes axes(const NodeValues& node) const override { return BatchNorm(attributes()).axes(node); }
};

/// The options of either.
inline const BatchNormOptions& training_options(const Op& op) {
  const auto* whole = dynamic_cast<const BatchNorm*>(&op);
  return whole != nullptr ? whole->attributes() : static_cast<const ShardBatchNorm&>(op).attributes();
}

/// Inference: the same inputs → y like x, with the running statistics in place of the batch's.
class BatchNormInference final : public OpWith<BatchNormInference, BatchNormOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "batch_norm_inference"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
};

/// What training computes apart from y, for readers that normalise x themselves: x [...,C], running mean [C], running
/// variance [C] → batch mean [C], 1/√(variance + ε) [C], new running mean, new running variance: the bits of BatchNorm.
class BatchNormStatistics final : public OpWith<BatchNormStatistics, BatchNormStatisticsOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "batch_norm_statistics"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// Recomputes a y that was not kept: x, γ, β, batch mean, 1/√(variance + ε), residual if add → the bits of y. Running
/// statistics stay as they are.
class BatchNormApply final : public OpWith<BatchNormApply, BatchNormOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "batch_norm_apply"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

/// dy, x, γ, batch mean, 1/√(variance + ε) and, if there is an activation, what says where it passed the gradient: y
/// with add; else β, from which y is recomputed, because that is faster than reading it → dx, dγ, dβ, and the
/// residual's gradient if there are both add and an activation (without activation it is dy itself).
class BatchNormBackward final : public OpWith<BatchNormBackward, BatchNormOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "batch_norm_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues& node) const override;
  std::optional<Divided> divide(const Division& node) const override;
};

}  // namespace ops
}  // namespace braid
