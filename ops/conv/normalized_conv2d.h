#pragma once
// Convolutions of a batch-normalised image that no node writes: they read what batch norm reads, and normalise and
// activate it on the way. That saves batch norm's write of its result, the convolution's read of it, and the memory
// that holds it until the backward pass. The rewrite ops/rewrites/fuse_normalization.h makes them.

#include "ops/conv/conv2d.h"
#include "ops/norm/batch_norm.h"

namespace braid {

/// The options of a convolution, or of its gradient, and the activation that follows batch norm.
template <class Options>
struct NormalizedOptions {
  Options convolution;
  Activation activation = Activation::none;
  static constexpr std::string_view kNames[] = {"convolution", "activation"};
};

namespace ops {

/// The first inputs are x [N,H,W,C], γ [C], β [C], batch mean [C], 1/√(variance + ε) [C]; the convolution's others
/// follow.
inline constexpr std::size_t kNormalizationInputs = 5;

/// These, a filter and perhaps a bias → Conv2d of BatchNormApply's y.
class NormalizedConv2d final : public OpWith<NormalizedConv2d, NormalizedOptions<Conv2dOptions>> {
 public:
  using Plain = Conv2d;
  static constexpr std::string_view kName = "conv2d_normalized";
  using OpWith::OpWith;
  std::string_view name() const override { return kName; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// These and dy → Conv2dBackwardFilter of BatchNormApply's y and dy.
class NormalizedConv2dBackwardFilter final
    : public OpWith<NormalizedConv2dBackwardFilter, NormalizedOptions<GradientOf<Conv2dOptions>>> {
 public:
  using Plain = Conv2dBackwardFilter;
  using OpWith::OpWith;
  std::string_view name() const override { return "conv2d_normalized_backward_filter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// The convolution of y that one of these ops stands for.
struct PlainConvolution {
  OpPtr op;
  Activation activation;          ///< of y
  std::vector<ValueDesc> inputs;  ///< y, described like x, and the convolution's others

  PlainConvolution(const Op& normalized, std::span<const ValueDesc> of_normalized);
};

}  // namespace ops
}  // namespace braid
