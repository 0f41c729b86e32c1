#pragma once
// Sums, means and extremes along axes.

#include "core/graph/op.h"

namespace braid::ops {

enum class ReduceKind : std::uint8_t { sum, mean, max, min };

constexpr std::string_view name_of(ReduceKind kind) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min"};
  return kNames[static_cast<int>(kind)];
}

struct ReduceAttributes {
  ReduceKind kind;
  Shape axes;      ///< increasing
  bool keep_axes;  ///< as axes of extent 1
  static constexpr std::string_view kNames[] = {"kind", "axes", "keep_axes"};
};

/// x → its elements combined along the axes. Sums are accumulated in f64 on the CPU, and in an order that depends on
/// the shape alone. The sum of nothing is 0, its mean a NaN; its extremes are errors. Equal extremes share the gradient
/// evenly, as in torch.amax. A NaN stays a NaN, and so do the gradients then.
class Reduce final : public OpWith<Reduce, ReduceAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "reduce"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

/// The shape with extent 1 along the axes, or without them.
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keep_axes);

}  // namespace braid::ops
