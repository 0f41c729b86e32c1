#pragma once
// Convolutions, products of matrices, normalisation, pooling and dropout. Each op says which shapes and dtypes it
// takes, and what it throws (ops/<family>/<op>.h).

#include <concepts>
#include <utility>

#include "autograd/tape.h"
#include "ops/conv/conv2d.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/pool/interpolate.h"
#include "ops/pool/pool.h"

namespace braid {

/// x [N,H,W,C], w [K,R,S,C/groups] → [N,P,Q,K]
Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options = {});
/// The same with a bias [K]. Its name differs because a braced list is options: conv2d(x, w, {.padding = 1}) has none.
Tensor conv2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dOptions& options);
template <std::convertible_to<Tensor> Bias>
Tensor conv2d(const Tensor& x, const Tensor& w, Bias&& bias, const Conv2dOptions& options = {}) {
  return conv2d_with_bias(x, w, std::forward<Bias>(bias), options);
}
/// The transposed convolution: x [N,H,W,C], w [C,R,S,K/groups] → [N,P,Q,K],
/// P = (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1. Throws ShapeError if that leaves no pixel or
/// the output padding is not below the stride.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const ConvTranspose2dOptions& options = {});
/// The same with a bias [K], in a separate node.
Tensor conv_transpose2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  const ConvTranspose2dOptions& options);
template <std::convertible_to<Tensor> Bias>
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, Bias&& bias, const ConvTranspose2dOptions& options = {}) {
  return conv_transpose2d_with_bias(x, w, std::forward<Bias>(bias), options);
}
/// x [...,C], w [K,C] → [...,K]
Tensor linear(const Tensor& x, const Tensor& w);
/// x [...,C], w [K,C], bias [K] → [...,K]
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);

/// The tensors of one batch normalisation, each [C].
struct BatchNormParameters {
  Parameter& scale;
  Parameter& shift;
  Parameter& running_mean;
  Parameter& running_variance;
};
/// x [...,C] → like x. In training, normalises with the batch's statistics and updates the running ones, which an empty
/// batch leaves as they are. With options.add, the residual is added before the activation.
Tensor batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                  bool training, const Tensor& residual = {});

Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
/// Takes windows of every dilation-th pixel; slower if the dilation is not 1.
Tensor max_pool2d(const Tensor& x, const PoolOptions& options, Extent2d dilation);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
/// The sums of the windows, padding included, divided by this number: PyTorch's divisor_override.
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options, std::int64_t divisor);
/// [N,H,W,C] → [N,output.h,output.w,C], windows as in PyTorch
Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output);
/// [N,H,W,C] → [N,C]
Tensor global_avg_pool(const Tensor& x);
/// a [...,M,K], b [...,K,N] → [...,M,N]. The axes before the matrices broadcast as in NumPy. Without transposition, [K]
/// is a row in front and a column behind, and the result lacks that axis.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});
/// [N,H,W,C] → [N,P,Q,C], as torch.nn.functional.interpolate. Throws ShapeError unless either
/// size or scale is given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// x [N,...,C], scale [C], shift [C] → like x, normalised for each image over all pixels and the channels of a group.
/// Instance normalisation has as many groups as channels. Scale and shift are f32 for an x of f16 or bf16.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift,
                  double epsilon = 1e-5);
/// The same for each place over the last axes, whose extents scale and shift have.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);

/// `layer` distinguishes the dropout layers of one model (Context::next_layer), below 65536. Each call in a step draws
/// new numbers.
Tensor dropout(const Tensor& x, double p, std::uint32_t layer);

}  // namespace braid
