#pragma once
// Softmax cross entropy, its gradient, and top-k accuracy. Logits are f32 or f64: exponentials of f16 would overflow,
// and bf16 cannot tell apart losses that differ by less than one part in 256.

#include "core/graph/op.h"

namespace braid::ops {

struct LabelSmoothing {
  double label_smoothing;
  static constexpr std::string_view kNames[] = {"label_smoothing"};
};

/// logits [N,K], labels i32 [N] → mean loss (scalar), softmax probabilities [N,K].
/// The mean of no row is a NaN. With label smoothing s the target is (1 − s) at the label plus s/K everywhere (Szegedy
/// et al., 2016). A label outside [0, K) makes the kernel throw DataError. Instead of labels, targets [N,K] of the
/// logits' type: −Σ target·log softmax, as in PyTorch. No gradient flows to them.
class CrossEntropy final : public OpWith<CrossEntropy, LabelSmoothing> {
 public:
  explicit CrossEntropy(double label_smoothing);
  std::string_view name() const override { return "cross_entropy"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"n_,n...->~,n_"}; }
};

/// dloss (scalar), probabilities [N,K], labels [N] or targets [N,K] → dlogits [N,K] = dloss·(probability·Σ target −
/// target) / N.
class CrossEntropyBackward final : public OpWith<CrossEntropyBackward, LabelSmoothing> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "cross_entropy_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"~,n_,n...->n_"}; }
};

struct AccuracyAttributes {
  std::int64_t k;
  static constexpr std::string_view kNames[] = {"k"};
};

/// logits [N,K], labels i32 [N] → f32 scalar, the share of rows whose label is among the k largest logits. A row counts
/// if fewer than k logits are larger than the label's, or equal to it at a smaller index.
class Accuracy final : public OpWith<Accuracy, AccuracyAttributes> {
 public:
  explicit Accuracy(std::int64_t k);
  std::string_view name() const override { return "accuracy"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"n_,n->~"}; }
};

}  // namespace braid::ops
