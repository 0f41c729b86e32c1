#pragma once
// Products of matrices: of two tensors, and as a fully connected layer with its gradients, whose bias gradient is a
// channel_sum.

#include "core/graph/op.h"

namespace braid {

/// Which operands of a product are given as their transposes.
struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  static constexpr std::string_view kNames[] = {"transpose_a", "transpose_b"};
};

namespace ops {

/// a [...,M,K], b [...,K,N] → y [...,M,N], or a [...,K,M] and b [...,N,K] if transposed. The axes before the matrices
/// are those of both inputs, or one of these is a single matrix. Throws ShapeError if the shapes do not agree.
class Matmul final : public OpWith<Matmul, MatmulOptions> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "matmul"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

/// The products that kernels compute: `batches` products [m,k]·[k,n]. From one matrix to the next are a_step and b_step
/// elements, 0 for a single matrix.
struct MatmulExtents {
  std::int64_t batches, m, n, k, a_step, b_step;

  MatmulExtents(const MatmulOptions& options, const Shape& a, const Shape& b);
};

/// x [N,C], w [K,C], optional bias [K] → y [N,K] = x·wᵀ + bias. Throws ShapeError if the shapes do not agree.
class Linear final : public OpWith<Linear> {
 public:
  std::string_view name() const override { return "linear"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

/// dy [N,K], w [K,C] → dx [N,C] = dy·w.
class LinearBackwardData final : public OpWith<LinearBackwardData> {
 public:
  std::string_view name() const override { return "linear_backward_data"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"nk,kc->nc"}; }
};

/// x [N,C], dy [N,K] → dw [K,C] = dyᵀ·x.
class LinearBackwardFilter final : public OpWith<LinearBackwardFilter> {
 public:
  std::string_view name() const override { return "linear_backward_filter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"nc,nk->kc"}; }
};

/// x [...,C] → [C], the sum over all other axes in a fixed order: the gradient of a bias.
class ChannelSum final : public OpWith<ChannelSum> {
 public:
  std::string_view name() const override { return "channel_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"*c->c"}; }
};

}  // namespace ops
}  // namespace braid
