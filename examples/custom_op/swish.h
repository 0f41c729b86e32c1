#pragma once
// Swish (Ramachandran, Zoph and Le, 2017), y = x·σ(βx), an op that Braid does not have. This file holds the formulas
// for both devices, swish.cpp the rules of the ops and their CPU kernels, swish.cu the CUDA kernels.

#include <braid/op.h>

#include <cmath>

namespace custom {

struct SwishAttributes {
  double beta = 1;
  static constexpr std::string_view kNames[] = {"beta"};
};

/// x → y = x·σ(βx), any shape.
class Swish final : public braid::OpWith<Swish, SwishAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "custom_swish"; }
  void infer(std::span<const braid::ValueDesc> inputs, std::vector<braid::OutputDesc>& outputs) const override;
  void gradient(braid::GradientContext& context) const override;
  /// Cheap enough to be computed twice where memory is short.
  std::optional<braid::Recomputation> recompute() const override { return braid::Recomputation{}; }
  /// Each of several ranks computes its own elements.
  braid::OpAxes axes(const braid::NodeValues&) const override { return {"*->*"}; }
};

/// dy, x → dx.
class SwishBackward final : public braid::OpWith<SwishBackward, SwishAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "custom_swish_backward"; }
  void infer(std::span<const braid::ValueDesc> inputs, std::vector<braid::OutputDesc>& outputs) const override;
  braid::OpAxes axes(const braid::NodeValues&) const override { return {"*->*"}; }
};

/// Registers the kernels. Call it once, before the first step.
void register_swish();
void register_swish_cuda();  // swish.cu; without a toolkit it is not there

inline braid::Tensor swish(const braid::Tensor& x, double beta = 1) {
  return braid::apply_op(std::make_shared<Swish>(beta), {x});
}

/// The formulas, elementwise.
template <class T>
struct SwishFormula {
  T beta;
  BRAID_HOST_DEVICE T operator()(T x) const { return x / (1 + std::exp(-beta * x)); }
};
template <class T>
struct SwishGradientFormula {
  T beta;
  BRAID_HOST_DEVICE T operator()(T dy, T x) const {
    const T s = 1 / (1 + std::exp(-beta * x));
    return dy * s * (1 + beta * x * (1 - s));
  }
};

}  // namespace custom
