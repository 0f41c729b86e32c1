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
  std::int64_t axis = 0, shards = 1;  ///< of x, if it is a shard: the axis that is divided, into how many equal parts
  static constexpr std::string_view kNames[] = {"p", "seed", "layer", "axis", "shards"};
};

/// Where the elements of a shard are in the whole: in runs of equal length.
struct DropoutRuns {
  std::int64_t length, shards, number;

  /// The place of an element of the shard.
  BRAID_HOST_DEVICE std::int64_t in_whole(std::int64_t element) const {
    const std::int64_t run = length == 0 ? 0 : element / length;
    return element + (run * (shards - 1) + number) * length;
  }
};

/// x, step number (i32 scalar) → y = x / (1 − p) where kept, else 0. Its gradient is the same op applied to dy. A third
/// input, the number of a shard (i32 scalar), says which part x is, if it is not all.
class Dropout final : public OpWith<Dropout, DropoutAttributes> {
 public:
  /// `layer` distinguishes the dropout layers of one model. Throws ShapeError unless 0 ≤ p < 1.
  Dropout(double p, std::uint64_t seed, std::uint32_t layer, std::int64_t axis = 0, std::int64_t shards = 1);
  std::string_view name() const override { return "dropout"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"n...c,->n...c", 1}; }
  /// A shard is divided again along the same axis.
  std::optional<Divided> divide(const Division& node) const override;
  /// Dropout of a shard of this shape, with this number.
  DropoutRuns runs(const Shape& x, std::int64_t number) const;
};

/// The four draws for elements [4·quad, 4·quad + 4); an element is dropped if its draw is below p.
BRAID_HOST_DEVICE inline PhiloxBlock dropout_draws(std::uint64_t seed, std::uint32_t layer, std::int32_t step,
                                                   std::uint64_t quad) {
  return philox(seed, (std::uint64_t{layer} << 32) | static_cast<std::uint32_t>(step), quad);
}

}  // namespace braid::ops
