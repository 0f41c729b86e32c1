#pragma once
// Optimizer updates of many parameters in one node. Small parameters share a node, so that updates neither flood the
// graph nor form one barrier at its end. The learning rate is an input: it changes every step, the graph does not.

#include "core/graph/op.h"

namespace braid {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool decoupled = false;  ///< decay multiplies the parameter by 1 − lr·weight_decay and stays out of the momentum
  bool scaled = false;     ///< gradients belong to a scaled loss (ops/optimizer/loss_scale.h)
  bool rounded = false;    ///< parameters have copies of their gradients' type, f16 or bf16
  static constexpr std::string_view kNames[] = {"momentum",  "weight_decay", "nesterov",
                                                "decoupled", "scaled",       "rounded"};
  friend bool operator==(const SgdOptions&, const SgdOptions&) = default;
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW (Loshchilov and Hutter, 2019)
  bool scaled = false;     ///< gradients belong to a scaled loss (ops/optimizer/loss_scale.h)
  bool rounded = false;    ///< parameters have copies of their gradients' type, f16 or bf16
  static constexpr std::string_view kNames[] = {"beta1",     "beta2",  "epsilon", "weight_decay",
                                                "decoupled", "scaled", "rounded"};
  friend bool operator==(const AdamOptions&, const AdamOptions&) = default;
};

namespace ops {

// Parameters, gradients and moments are all f32 or all f64. With `rounded`, gradients may be f16 or bf16 for f32
// parameters, and every parameter has one more input and output after its moments: its copy of the gradient's type,
// with which the model computes (Context::rounded). With `scaled`, both updates have one more scalar input, the last: a
// factor (f64) that gradients are multiplied by first. If it is 0, the update is skipped: parameters, moments and
// copies keep their bits, whatever the gradients are. Constants that are derived from the learning rate are computed in
// f64 and rounded once.

/// learning rate (f64 scalar), then for every parameter: p, dp and, with momentum, its buffer m
/// → for every parameter: new p and, with momentum, new m. As torch.optim.SGD with dampening 0 and a zero first m.
class SgdUpdate final : public OpWith<SgdUpdate, SgdOptions> {
 public:
  using OpWith::OpWith;
  /// Inputs before those of the parameters.
  std::size_t scalars() const { return attributes_.scaled ? 2 : 1; }
  /// Inputs per parameter.
  std::size_t stride() const { return 2 + (attributes_.momentum != 0 ? 1 : 0) + (attributes_.rounded ? 1 : 0); }
  std::string_view name() const override { return "sgd_update"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  std::optional<Divided> divide(const Division& node) const override { return divide_by_tensors(node, scalars()); }
};

/// learning rate (f64 scalar), step number from 1 (i32 scalar), then for every parameter p, dp, m, v
/// → for every parameter: new p, new m, new v. As torch.optim.Adam and AdamW (Kingma and Ba, 2015).
class AdamUpdate final : public OpWith<AdamUpdate, AdamOptions> {
 public:
  using OpWith::OpWith;
  /// Inputs before those of the parameters.
  std::size_t scalars() const { return attributes_.scaled ? 3 : 2; }
  /// Inputs per parameter.
  std::size_t stride() const { return attributes_.rounded ? 5 : 4; }
  std::string_view name() const override { return "adam_update"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  std::optional<Divided> divide(const Division& node) const override { return divide_by_tensors(node, scalars()); }
};

}  // namespace ops
}  // namespace braid
