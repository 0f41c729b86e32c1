#pragma once
// Elementwise ops: ReLU, ReLU6, scale by a constant or a value, sum of many inputs, cast, fill.

#include "core/op.h"
#include "ops/common/activation.h"

namespace braid::ops {

/// y = max(x, 0), any shape. A NaN stays a NaN.
class Relu final : public Op {
 public:
  std::string_view name() const override { return "relu"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// dy, y → dx = dy where y > 0, else 0.
class ReluBackward final : public Op {
 public:
  std::string_view name() const override { return "relu_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

/// y = min(max(x, 0), 6), any shape. A NaN stays a NaN.
class Relu6 final : public Op {
 public:
  std::string_view name() const override { return "relu6"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// dy, y → dx = dy where 0 < y < 6, else 0.
class Relu6Backward final : public Op {
 public:
  std::string_view name() const override { return "relu6_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

/// For the gradient rules of layers with an activation: from dy, the gradient of the output y = act(z), to that of z.
/// Emits a node if there is an activation.
ValueId before_activation(GradientContext& context, Activation activation, ValueId dy, ValueId y);

/// y = factor·x, any shape.
class Scale final : public Op {
 public:
  explicit Scale(double factor) : factor_(factor) {}
  double factor() const { return factor_; }
  std::string_view name() const override { return "scale"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override { hash.add(factor_); }
  void gradient(GradientContext& context) const override;

 private:
  double factor_;
};

/// x, factor (scalar of the type that x is computed in) → y = factor·x. The factor gets no gradient: gradient() throws
/// Error if it wants one.
class ScaleBy final : public Op {
 public:
  std::string_view name() const override { return "scale_by"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// y = x₀ + x₁ + …, one or more inputs of equal shape, added from the first to the last whatever the schedule.
class Sum final : public Op {
 public:
  std::string_view name() const override { return "sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// Converts between floating types, rounding to nearest even.
class Cast final : public Op {
 public:
  explicit Cast(DType dtype) : dtype_(dtype) {}
  std::string_view name() const override { return "cast"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override { hash.add(static_cast<int>(dtype_)); }
  void gradient(GradientContext& context) const override;

 private:
  DType dtype_;
};

/// No input → a floating tensor full of one value.
class Fill final : public Op {
 public:
  Fill(const ValueDesc& desc, double value) : desc_(desc), value_(value) {}
  double value() const { return value_; }
  std::string_view name() const override { return "fill"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;

 private:
  ValueDesc desc_;
  double value_;
};

}  // namespace braid::ops
