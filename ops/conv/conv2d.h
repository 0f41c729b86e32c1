#pragma once
// Two-dimensional convolution, optionally fused with the bias and the activation that follow it, and its two gradients.
// The gradients are separate nodes: backward-data is on the critical path, backward-filter is not, and the scheduler
// may run both at once.

#include "core/graph/op.h"
#include "ops/common/activation.h"
#include "ops/common/extent.h"
#include "ops/common/shape_attributes.h"

namespace braid {

struct Conv2dOptions {
  Extent2d stride = 1;
  Extent2d padding = 0;  ///< zeros added on both sides
  Extent2d dilation = 1;
  std::int64_t groups = 1;
  Activation activation = Activation::none;  ///< activation of the output, after the bias
  static constexpr std::string_view kNames[] = {"stride", "padding", "dilation", "groups", "activation"};
  friend bool operator==(const Conv2dOptions&, const Conv2dOptions&) = default;
};

struct ConvTranspose2dOptions {
  Extent2d stride = 1;
  Extent2d padding = 0;         ///< pixels cut off on both sides
  Extent2d output_padding = 0;  ///< pixels added at the end, fewer than the stride
  Extent2d dilation = 1;
  std::int64_t groups = 1;
};

namespace ops {

/// x [N,H,W,C], w [K,R,S,C/groups], optional bias [K] → y = act(x * w + bias) [N,P,Q,K],
/// P = (H + 2·padding − dilation·(R−1) − 1) / stride + 1. Throws ShapeError if the shapes do not agree.
/// The library decides how the activation treats a NaN: oneDNN may make it ∞, or 6 with ReLU6; cuDNN guarantees
/// nothing.
class Conv2d final : public OpWith<Conv2d, Conv2dOptions> {
 public:
  explicit Conv2d(const Conv2dOptions& options);
  std::string_view name() const override { return "conv2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

/// Convolution gradient with respect to the input, which is also the transposed convolution of dy. The activation is
/// not part of it: dy is the gradient before it. dy [N,P,Q,K], w [K,R,S,C/groups] → dx [N,H,W,C].
class Conv2dBackwardData final : public OpWith<Conv2dBackwardData, GradientOf<Conv2dOptions>> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "conv2d_backward_data"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

/// Convolution gradient with respect to the filter, again without the activation.
/// x [N,H,W,C], dy [N,P,Q,K] → dw [K,R,S,C/groups], same dtype as x.
/// Independent of the gradient with respect to x, so the scheduler may run both at once.
class Conv2dBackwardFilter final : public OpWith<Conv2dBackwardFilter, GradientOf<Conv2dOptions>> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "conv2d_backward_filter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

}  // namespace ops
}  // namespace braid
