#pragma once
// Pooling over windows (max, average), down or up to a given extent (adaptive average) and over the whole image
// (global average), with their gradients.

#include "core/graph/op.h"
#include "ops/common/extent.h"
#include "ops/common/shape_attributes.h"

namespace braid {

struct PoolOptions {
  Extent2d window = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;  ///< on both sides; at most half the window
  /// Round the output extent up: the last window may end outside the padded input, by less than the stride, but must
  /// start in the input or the padding before it. Elements outside count for neither maximum nor mean.
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pooling: divide by the window's size, padding included
  static constexpr std::string_view kNames[] = {"window", "stride", "padding", "ceil_mode", "count_include_pad"};
  friend bool operator==(const PoolOptions&, const PoolOptions&) = default;
};

namespace ops {

/// Extents of a pooled image. Throws ShapeError if the window does not fit.
Shape pooled_shape(std::string_view op, const PoolOptions& options, const Shape& x);

/// x [N,H,W,C] → y [N,P,Q,C] and the place of each maximum in its window, row·width + column, as u8 [N,P,Q,C].
/// The first of equal maxima counts; padding never does. Windows have at most 256 places.
class MaxPool2d final : public OpWith<MaxPool2d, PoolOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "max_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

/// dy [N,P,Q,C], places of the maxima → dx [N,H,W,C].
class MaxPool2dBackward final : public OpWith<MaxPool2dBackward, GradientOf<PoolOptions>> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "max_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

/// x [N,H,W,C] → y [N,P,Q,C], the mean of each window.
class AvgPool2d final : public OpWith<AvgPool2d, PoolOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "avg_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

/// dy [N,P,Q,C] → dx [N,H,W,C].
class AvgPool2dBackward final : public OpWith<AvgPool2dBackward, GradientOf<PoolOptions>> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "avg_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override { return without_padding(*this, output, axis); }
};

struct AdaptiveAvgPoolAttributes {
  Extent2d output;
  static constexpr std::string_view kNames[] = {"output"};
};

/// x [N,H,W,C] → y [N,P,Q,C] with P×Q given: output row p is the mean over the input rows from ⌊p·H/P⌋ up to but not
/// including ⌈(p+1)·H/P⌉, and so are columns, as in PyTorch. P and Q may be larger than H and W.
class AdaptiveAvgPool2d final : public OpWith<AdaptiveAvgPool2d, AdaptiveAvgPoolAttributes> {
 public:
  /// Throws ShapeError if the output has no pixel.
  explicit AdaptiveAvgPool2d(Extent2d output);
  std::string_view name() const override { return "adaptive_avg_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"n__c->n__c"}; }
};

/// dy [N,P,Q,C] → dx [N,H,W,C].
class AdaptiveAvgPool2dBackward final : public OpWith<AdaptiveAvgPool2dBackward, ShapeAttribute> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "adaptive_avg_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"n__c->n__c"}; }
};

/// x [N,H,W,C] → y [N,C], the mean over the image.
class GlobalAvgPool final : public OpWith<GlobalAvgPool> {
 public:
  std::string_view name() const override { return "global_avg_pool"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"nhwc->~nc"}; }
};

/// dy [N,C] → dx [N,H,W,C].
class GlobalAvgPoolBackward final : public OpWith<GlobalAvgPoolBackward, ShapeAttribute> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "global_avg_pool_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"~nc->nhwc"}; }
};

}  // namespace ops
}  // namespace braid
