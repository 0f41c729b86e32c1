#pragma once
// Elementwise ops: ReLU, ReLU6, scale by a constant or a value, sum of many inputs, cast, fill.

#include "core/graph/op.h"
#include "ops/common/activation.h"
#include "ops/common/divide.h"

namespace braid::ops {

/// y = max(x, 0), any shape. A NaN stays a NaN.
class Relu final : public OpWith<Relu> {
 public:
  std::string_view name() const override { return "relu"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override { return divided_by_rows(node); }
};

/// dy, y → dx = dy where y > 0, else 0.
class ReluBackward final : public OpWith<ReluBackward> {
 public:
  std::string_view name() const override { return "relu_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Divided> divide(const Division& node) const override { return divided_by_rows(node); }
};

/// y = min(max(x, 0), 6), any shape. A NaN stays a NaN.
class Relu6 final : public OpWith<Relu6> {
 public:
  std::string_view name() const override { return "relu6"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override { return divided_by_rows(node); }
};

/// dy, y → dx = dy where 0 < y < 6, else 0.
class Relu6Backward final : public OpWith<Relu6Backward> {
 public:
  std::string_view name() const override { return "relu6_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Divided> divide(const Division& node) const override { return divided_by_rows(node); }
};

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
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override { return divided_linearly(node); }
};

/// x, factor (scalar of the type that x is computed in) → y = factor·x. The factor gets no gradient: gradient() throws
/// Error if it needs one.
class ScaleBy final : public OpWith<ScaleBy> {
 public:
  std::string_view name() const override { return "scale_by"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override;
};

/// y = x₀ + x₁ + …, one or more inputs of equal shape, added from the first to the last whatever the schedule.
class Sum final : public OpWith<Sum> {
 public:
  std::string_view name() const override { return "sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override { return divided_linearly(node); }
};

struct CastAttributes {
  DType dtype;
  static constexpr std::string_view kNames[] = {"dtype"};
};

/// Converts between floating types, rounding to nearest even.
class Cast final : public OpWith<Cast, CastAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "cast"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Repeat> repeat() const override { return Repeat{}; }
  std::optional<Divided> divide(const Division& node) const override { return divided_linearly(node); }
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
