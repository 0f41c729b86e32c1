#pragma once
// Random tensors by the generator of dropout: an element depends on seed, call, step and its index alone, so it is the
// same for any number of threads and need not be stored for the backward pass.

#include "core/base/random.h"
#include "core/graph/op.h"

namespace braid::ops {

struct RandomAttributes {
  ValueDesc output;
  bool normal;  ///< standard normal; else uniform in [0, 1)
  std::uint64_t seed;
  std::uint32_t call;  ///< distinguishes the calls of a step
  static constexpr std::string_view kNames[] = {"output", "normal", "seed", "call"};
};

/// Step number (i32 scalar) → a floating tensor of independent random numbers.
class Random final : public OpWith<Random, RandomAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "random"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  /// Its input has no gradient.
  void gradient(GradientContext&) const override {}
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
};

/// cos(2π·x) and sin(2π·x) for x in [0, 1). A GPU's functions for any angle would need local memory.
struct PointOnCircle {
  double x, y;

  BRAID_HOST_DEVICE explicit PointOnCircle(double share) {
#ifdef __CUDA_ARCH__
    sincospi(2 * share, &y, &x);
#else
    x = std::cos(6.283185307179586 * share);
    y = std::sin(6.283185307179586 * share);
#endif
  }
};

/// Elements [4·quad, 4·quad + 4). Dropout has other streams of the generator.
template <class T>
struct RandomQuad {
  T at[4];

  BRAID_HOST_DEVICE RandomQuad(const RandomAttributes& attributes, std::int32_t step, std::int64_t quad) {
    const PhiloxBlock draws =
        philox(~attributes.seed, (std::uint64_t{attributes.call} << 32) | static_cast<std::uint32_t>(step),
               static_cast<std::uint64_t>(quad));
    for (int i = 0; i < 4; i += 2) {
      if (attributes.normal) {  // two at a time (Box and Muller, 1958)
        const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(draws.x[i]) + 1.0) * 0x1p-32));
        const PointOnCircle point(0x1p-32 * static_cast<double>(draws.x[i + 1]));
        at[i] = static_cast<T>(radius * point.x);
        at[i + 1] = static_cast<T>(radius * point.y);
      } else {
        at[i] = static_cast<T>(to_unit(draws.x[i]));
        at[i + 1] = static_cast<T>(to_unit(draws.x[i + 1]));
      }
    }
  }
};

}  // namespace braid::ops
