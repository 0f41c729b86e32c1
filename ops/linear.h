#pragma once
// Fully connected layer and its gradients; the bias gradient is a channel_sum.

#include "core/op.h"

namespace braid::ops {

/// x [N,C], w [K,C], optional bias [K] → y [N,K] = x·wᵀ + bias. Throws ShapeError if the shapes do not agree.
class Linear final : public OpWith<Linear> {
 public:
  std::string_view name() const override { return "linear"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// dy [N,K], w [K,C] → dx [N,C] = dy·w.
class LinearBackwardData final : public OpWith<LinearBackwardData> {
 public:
  std::string_view name() const override { return "linear_backward_data"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// x [N,C], dy [N,K] → dw [K,C] = dyᵀ·x.
class LinearBackwardFilter final : public OpWith<LinearBackwardFilter> {
 public:
  std::string_view name() const override { return "linear_backward_filter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// x [...,C] → [C], the sum over all other axes in a fixed order: the gradient of a bias.
class ChannelSum final : public OpWith<ChannelSum> {
 public:
  std::string_view name() const override { return "channel_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

}  // namespace braid::ops
