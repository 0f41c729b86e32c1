#pragma once
// Convolutions of a batch-normalised image that no node writes: they read what batch norm reads, and normalise and
// activate it on the way. That saves batch norm's write of its result, the convolution's read of it, and the memory
// that holds it until the backward pass. The rewrite ops/rewrites/fuse.h makes them.

#include <type_traits>

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

/// These and a convolution's other inputs (a filter and perhaps a bias, or dy) → Conv2d, or Conv2dBackwardFilter, of
/// BatchNormApply's y.
template <class Convolution, class Options>
class NormalizedConvolution final
    : public OpWith<NormalizedConvolution<Convolution, Options>, NormalizedOptions<Options>> {
 public:
  using Plain = Convolution;
  static constexpr std::string_view kName =
      std::is_same_v<Plain, Conv2d> ? "conv2d_normalized" : "conv2d_normalized_backward_filter";
  using OpWith<NormalizedConvolution, NormalizedOptions<Options>>::OpWith;
  std::string_view name() const override { return kName; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};
using NormalizedConv2d = NormalizedConvolution<Conv2d, Conv2dOptions>;
using NormalizedConv2dBackwardFilter = NormalizedConvolution<Conv2dBackwardFilter, GradientOf<Conv2dOptions>>;

/// The convolution of y that one of these ops stands for.
struct PlainConvolution {
  OpPtr op;
  Activation activation;          ///< of y
  std::vector<ValueDesc> inputs;  ///< y, described like x, and the convolution's others

  PlainConvolution(const Op& normalized, std::span<const ValueDesc> of_normalized);
};

}  // namespace ops
}  // namespace braid
