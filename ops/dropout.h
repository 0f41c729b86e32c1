#pragma once
// Dropout (Srivastava et al., 2014) with a counter-based generator: whether an element is kept depends on seed, layer,
// step and element index alone, so the mask is the same on every device and need not be stored for the backward pass.

#include "core/op.h"
#include "core/random.h"

namespace braid::ops {

/// x, step number (i32 scalar) → y = x / (1 − p) where kept, else 0. Its gradient is the same op applied to dy.
class Dropout final : public Op {
 public:
  /// `layer` tells apart the dropout layers of one model. Throws ShapeError unless 0 ≤ p < 1.
  Dropout(double p, std::uint64_t seed, std::uint32_t layer);
  double p() const { return p_; }
  std::uint64_t seed() const { return seed_; }
  std::uint32_t layer() const { return layer_; }
  std::string_view name() const override { return "dropout"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  void gradient(GradientContext& context) const override;

 private:
  double p_;
  std::uint64_t seed_;
  std::uint32_t layer_;
};

/// The four draws for elements [4·quad, 4·quad + 4); an element is dropped if its draw is below p.
BRAID_HOST_DEVICE inline PhiloxBlock dropout_draws(std::uint64_t seed, std::uint32_t layer, std::int32_t step,
                                                   std::uint64_t quad) {
  return philox(seed, (std::uint64_t{layer} << 32) | static_cast<std::uint32_t>(step), quad);
}

}  // namespace braid::ops
