#pragma once
// Two-dimensional convolution, optionally fused with the bias and the ReLU that follow it, and its two gradients. The
// gradients are nodes of their own: backward-data is on the critical path, backward-filter is not, and the scheduler
// may run both at once.

#include "core/op.h"
#include "ops/common/activation.h"
#include "ops/common/extent.h"

namespace braid {

struct Conv2dOptions {
  Extent2d stride = 1;
  Extent2d padding = 0;  ///< zeros added on both sides
  Extent2d dilation = 1;
  std::int64_t groups = 1;
  Activation activation = Activation::none;  ///< of the output, after the bias: none or relu
  friend bool operator==(const Conv2dOptions&, const Conv2dOptions&) = default;
};

namespace ops {

/// x [N,H,W,C], w [K,R,S,C/groups], optional bias [K] → y = act(x * w + bias) [N,P,Q,K],
/// P = (H + 2·padding − dilation·(R−1) − 1) / stride + 1. Throws ShapeError if the shapes do not agree.
/// What becomes of a NaN in the ReLU depends on the library: with oneDNN it may become an infinity; cuDNN promises
/// nothing.
class Conv2d final : public Op {
 public:
  explicit Conv2d(const Conv2dOptions& options);
  const Conv2dOptions& options() const { return options_; }
  std::string_view name() const override { return "conv2d"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;

 private:
  Conv2dOptions options_;
};

/// Convolution gradient with respect to the input. The activation is not part of it: dy is the gradient before it.
/// dy [N,P,Q,K], w [K,R,S,C/groups] → dx [N,H,W,C].
class Conv2dBackwardData final : public Op {
 public:
  Conv2dBackwardData(const Conv2dOptions& options, const Shape& x) : options_(options), x_(x) {}
  const Conv2dOptions& options() const { return options_; }
  std::string_view name() const override { return "conv2d_backward_data"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;

 private:
  Conv2dOptions options_;
  Shape x_;
};

/// Convolution gradient with respect to the filter, again without the activation.
/// x [N,H,W,C], dy [N,P,Q,K] → dw [K,R,S,C/groups], same dtype as x.
/// Independent of the gradient with respect to x, so the scheduler may run both at once.
class Conv2dBackwardFilter final : public Op {
 public:
  Conv2dBackwardFilter(const Conv2dOptions& options, const Shape& w) : options_(options), w_(w) {}
  const Conv2dOptions& options() const { return options_; }
  std::string_view name() const override { return "conv2d_backward_filter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;

 private:
  Conv2dOptions options_;
  Shape w_;
};

}  // namespace ops
}  // namespace braid
