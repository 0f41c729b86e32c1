#pragma once
// The ops as functions on tensors: what models are written in. Each records one node on the tape of its inputs.
// Shapes, dtypes and errors are those of the op (ops/<op>.h). Floating inputs have one type unless it says otherwise;
// cast() brings them to it.

#include "autograd/tape.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/pool.h"

namespace braid {

/// Any op, including your own (braid/op.h) → its first output. Further outputs have the ids that follow. Throws Error
/// unless all inputs, at least one, belong to one session.
Tensor apply_op(OpPtr op, std::span<const Tensor> inputs);
inline Tensor apply_op(OpPtr op, std::initializer_list<Tensor> inputs) {
  return apply_op(std::move(op), std::span(inputs.begin(), inputs.size()));
}

/// x [N,H,W,C], w [K,R,S,C/groups] → [N,P,Q,K]
Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options = {});
/// The same with a bias [K]
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dOptions& options = {});
/// x [N,C], w [K,C] → [N,K]
Tensor linear(const Tensor& x, const Tensor& w);
/// x [N,C], w [K,C], bias [K] → [N,K]
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);

/// The tensors of one batch normalisation, each [C].
struct BatchNormParameters {
  Parameter& scale;
  Parameter& shift;
  Parameter& running_mean;
  Parameter& running_variance;
};
/// x [...,C] → like x. In training, normalises with the batch's statistics and updates the running ones. With
/// options.add, the residual is added before the activation.
Tensor batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                  bool training, const Tensor& residual = {});

Tensor relu(const Tensor& x);
/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x);
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
/// [N,H,W,C] → [N,output.h,output.w,C], windows as in PyTorch
Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output);
/// [N,H,W,C] → [N,C]
Tensor global_avg_pool(const Tensor& x);
Tensor add(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
/// factor·x; the factor is an attribute of the op, not a value
Tensor scale(const Tensor& x, double factor);
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
/// factor·x for a scalar of the type that x is computed in (f32 for f16 and bf16), which gets no gradient
Tensor scale(const Tensor& x, const Tensor& factor);
/// Adds one or more tensors of equal shape from first to last.
Tensor sum(std::span<const Tensor> inputs);
/// Σ sigmoid(weights[i])·inputs[i]: weights [n], and n tensors of equal shape
Tensor weighted_sum(const Tensor& weights, std::span<const Tensor> inputs);
/// Joins along channels, the last axis.
Tensor concat(std::span<const Tensor> inputs);
/// `layer` distinguishes the dropout layers of one model (Context::next_layer).
Tensor dropout(const Tensor& x, double p, std::uint32_t layer);
/// The same elements in another shape; no copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// [N,...] → [N,rest]
Tensor flatten(const Tensor& x);
/// x as another floating type; x itself if it is of that type. However often a tensor is cast in a step, it is one
/// node.
Tensor cast(const Tensor& x, DType dtype);
/// logits [N,K], labels i32 [N] → scalar, the mean over the batch. Logits of f16 or bf16 are cast to f32 first. Instead
/// of labels, probabilities of the classes, f32 [N,K]; no gradient flows to them.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0);
/// logits [N,K], labels i32 [N] → scalar f32 in [0,1]: the share of labels among the k largest logits, which are cast
/// likewise
Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k = 1);

}  // namespace braid
