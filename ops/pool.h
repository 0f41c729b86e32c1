#pragma once
// Pooling over windows (max, average), down or up to a given extent (adaptive average) and over the whole image
// (global average), with their gradients.

#include "core/op.h"
#include "ops/common/extent.h"

namespace braid {

struct PoolOptions {
  Extent2d window = 2;
  Extent2d stride = 2;
  Extent2d padding = 0;           ///< on both sides; at most half the window
  bool ceil_mode = false;         ///< round the output extent up; a last window must start inside the padded input
  bool count_include_pad = true;  ///< average pooling: divide by the window's size, padding included
  friend bool operator==(const PoolOptions&, const PoolOptions&) = default;
};

namespace ops {

/// Extents of a pooled image. Throws ShapeError if the window does not fit.
Shape pooled_shape(std::string_view op, const PoolOptions& options, const Shape& x);

/// x [N,H,W,C] → y [N,P,Q,C] and the place of each maximum in its window, row·width + column, as u8 [N,P,Q,C].
/// The first of equal maxima counts; padding never does. Windows have at most 256 places.
class MaxPool2d final : public Op {
 public:
  explicit MaxPool2d(const PoolOptions& options) : options_(options) {}
  const PoolOptions& options() const { return options_; }
  std::string_view name() const override { return "max_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  void gradient(GradientContext& context) const override;

 private:
  PoolOptions options_;
};

/// dy [N,P,Q,C], places of the maxima → dx [N,H,W,C].
class MaxPool2dBackward final : public Op {
 public:
  MaxPool2dBackward(const PoolOptions& options, const Shape& x) : options_(options), x_(x) {}
  const PoolOptions& options() const { return options_; }
  std::string_view name() const override { return "max_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;

 private:
  PoolOptions options_;
  Shape x_;
};

/// x [N,H,W,C] → y [N,P,Q,C], the mean of each window.
class AvgPool2d final : public Op {
 public:
  explicit AvgPool2d(const PoolOptions& options) : options_(options) {}
  const PoolOptions& options() const { return options_; }
  std::string_view name() const override { return "avg_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  void gradient(GradientContext& context) const override;

 private:
  PoolOptions options_;
};

/// dy [N,P,Q,C] → dx [N,H,W,C].
class AvgPool2dBackward final : public Op {
 public:
  AvgPool2dBackward(const PoolOptions& options, const Shape& x) : options_(options), x_(x) {}
  const PoolOptions& options() const { return options_; }
  std::string_view name() const override { return "avg_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;

 private:
  PoolOptions options_;
  Shape x_;
};

/// x [N,H,W,C] → y [N,P,Q,C] with P×Q given: output row p is the mean over the input rows from ⌊p·H/P⌋ up to but not
/// including ⌈(p+1)·H/P⌉, and so are columns, as in PyTorch. P and Q may be larger than H and W.
class AdaptiveAvgPool2d final : public Op {
 public:
  /// Throws ShapeError if the output has no pixel.
  explicit AdaptiveAvgPool2d(Extent2d output);
  std::string_view name() const override { return "adaptive_avg_pool2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override { output_.add_to(hash); }
  void gradient(GradientContext& context) const override;

 private:
  Extent2d output_;
};

/// dy [N,P,Q,C] → dx [N,H,W,C].
class AdaptiveAvgPool2dBackward final : public Op {
 public:
  explicit AdaptiveAvgPool2dBackward(const Shape& x) : x_(x) {}
  std::string_view name() const override { return "adaptive_avg_pool2d_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override { x_.add_to(hash); }

 private:
  Shape x_;
};

/// x [N,H,W,C] → y [N,C], the mean over the image.
class GlobalAvgPool final : public Op {
 public:
  std::string_view name() const override { return "global_avg_pool"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// dy [N,C] → dx [N,H,W,C].
class GlobalAvgPoolBackward final : public Op {
 public:
  explicit GlobalAvgPoolBackward(const Shape& x) : x_(x) {}
  std::string_view name() const override { return "global_avg_pool_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;

 private:
  Shape x_;
};

}  // namespace ops
}  // namespace braid
