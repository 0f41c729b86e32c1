#pragma once
// Copies whose elements keep their values and change their places: the axes of a tensor in another order, and a window
// of a tensor, which cuts or pads it. They take every dtype.

#include "core/graph/op.h"

namespace braid::ops {

struct PermuteAttributes {
  std::vector<int> axes;
  static constexpr std::string_view kNames[] = {"axes"};
};

/// x → y whose axis i is axis axes[i] of x. Throws ShapeError unless the axes are each of x's once.
class Permute final : public OpWith<Permute, PermuteAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "permute"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
};

struct WindowAttributes {
  std::vector<std::int64_t> begin;  ///< per axis
  Shape shape;
  double value;
  static constexpr std::string_view kNames[] = {"begin", "shape", "value"};
};

/// x → y of `shape` with y[i] = x[begin + i] or, where that is outside of x, `value`. A slice, where the window lies in
/// x; a constant padding, where x lies in the window; its own gradient, with another begin.
class Window final : public OpWith<Window, WindowAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "window"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
};

}  // namespace braid::ops
