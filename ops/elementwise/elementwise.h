#pragma once
// Elementwise ops: ReLU, ReLU6, scale by a constant or a value, sum of many inputs, cast, fill.

#include "core/graph/op.h"
#include "ops/common/activation.h"

namespace braid::ops {

/// y = max(x, 0) or min(max(x, 0), 6), any shape. A NaN stays a NaN.
template <Activation kActivation>
class Activate final : public OpWith<Activate<kActivation>> {
 public:
  std::string_view name() const override { return name_of(kActivation); }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"*->*"}; }
};
using Relu = Activate<Activation::relu>;
using Relu6 = Activate<Activation::relu6>;

/// dy, y → dx = dy where y is strictly within the activation's range, else 0.
template <Activation kActivation>
class ActivateBackward final : public OpWith<ActivateBackward<kActivation>> {
 public:
  std::string_view name() const override {
    return kActivation == Activation::relu ? "relu_backward" : "relu6_backward";
  }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"*->*"}; }
};
using ReluBackward = ActivateBackward<Activation::relu>;
using Relu6Backward = ActivateBackward<Activation::relu6>;

/// Maps dy, the gradient of the output y = act(z), to that of z, for the gradient rules of layers with an activation.
/// Emits a node if there is an activation.
ValueId before_activation(GradientContext& context, Activation activation, ValueId dy, ValueId y);

struct ScaleAttributes {
  double factor;
  static constexpr std::string_view kNames[] = {"factor"};
};

/// y = factor·x, any shape.
class Scale final : public OpWith<Scale, ScaleAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "scale"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"*->*", 1}; }
};

/// x, factor (scalar of the type that x is computed in) → y = factor·x. The factor gets no gradient: gradient() throws
/// Error if it needs one.
class ScaleBy final : public OpWith<ScaleBy> {
 public:
  std::string_view name() const override { return "scale_by"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"*,->*", 1}; }
};

/// y = x₀ + x₁ + …, one or more inputs of equal shape, added from the first to the last whatever the schedule.
class Sum final : public OpWith<Sum> {
 public:
  std::string_view name() const override { return "sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override { return {"*->*", node.inputs.size()}; }
};

struct CastAttributes {
  DType dtype;
  static constexpr std::string_view kNames[] = {"dtype"};
};

/// Converts any type to a floating one, rounding to nearest even. Only floating inputs have a gradient.
class Cast final : public OpWith<Cast, CastAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "cast"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"*->*", 1}; }
};

/// The value in another type, for gradient rules. Emits a node if its type differs; kNoValue stays.
ValueId cast(GradientContext& context, ValueId value, DType dtype);

struct FillAttributes {
  ValueDesc output;
  double value;
  static constexpr std::string_view kNames[] = {"output", "value"};
};

/// No input → a floating tensor full of one value.
class Fill final : public OpWith<Fill, FillAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "fill"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

}  // namespace braid::ops
