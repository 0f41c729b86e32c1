#pragma once
// Dropout (Srivastava et al., 2014) with a counter-based generator: whether an element is kept depends on seed, layer,
// step and element index alone, so the mask is the same on every device and need not be stored for the backward pass.

#include "core/base/random.h"
#include "core/graph/op.h"

namespace braid::ops {

struct DropoutAttributes {
  double p;
  std::uint64_t seed;
  std::uint32_t layer;
  static constexpr std::string_view kNames[] = {"p", "seed", "layer"};
};

/// x, step number (i32 scalar) → y = x / (1 − p) where kept, else 0. Its gradient is the same op applied to dy. A third
/// input, the number of a shard (i32 scalar), says which part of the samples x is, if it is not all of them.
class Dropout final : public OpWith<Dropout, DropoutAttributes> {
 public:
  /// `layer` distinguishes the dropout layers of one model. Throws ShapeError unless 0 ≤ p < 1.
  Dropout(double p, std::uint64_t seed, std::uint32_t layer);
  std::string_view name() const override { return "dropout"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"n...,->n..."}; }
  std::optional<Divided> divide(const Division& node) const override;
};

/// The four draws for elements [4·quad, 4·quad + 4); an element is dropped if its draw is below p.
BRAID_HOST_DEVICE inline PhiloxBlock dropout_draws(std::uint64_t seed, std::uint32_t layer, std::int32_t step,
                                                   std::uint64_t quad) {
  return philox(seed, (std::uint64_t{layer} << 32) | static_cast<std::uint32_t>(step), quad);
}

}  // namespace braid::ops
