#pragma once
// Softmax and its logarithm along one axis.

#include "core/graph/op.h"

namespace braid::ops {

struct SoftmaxAttributes {
  int axis;
  bool logarithm;
  static constexpr std::string_view kNames[] = {"axis", "logarithm"};
};

/// x → y = eˣ / Σeˣ along the axis, or log y. Stable: the largest element is subtracted first.
class Softmax final : public OpWith<Softmax, SoftmaxAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "softmax"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

/// dy, y → dx
class SoftmaxBackward final : public OpWith<SoftmaxBackward, SoftmaxAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "softmax_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues& node) const override;
};

/// The tensor as [outer, length, inner], softmax being along the length.
struct SoftmaxExtents {
  std::int64_t outer, length, inner;
  SoftmaxExtents(const Shape& shape, int axis)
      : outer(shape.size_between(0, axis)), length(shape[axis]), inner(shape.size_between(axis + 1, shape.rank())) {}
};

}  // namespace braid::ops
