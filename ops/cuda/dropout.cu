#include "ops/common/arithmetic.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/dropout.h"

namespace braid::cuda {

namespace {

template <class T>
struct Dropout {
  const T* x;
  const std::int32_t* step;
  T* y;
  std::uint64_t seed;
  std::uint32_t layer;
  arithmetic::DropoutScale<Compute<T>> scale;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(x + first);
    if constexpr (kWidth == 1) {
      const PhiloxBlock draws = of_quad(first / 4);
      const auto place = first % 4;  // selected, not indexed: an array with an index has to live in memory
      const std::uint32_t low = place == 0 ? draws.x[0] : draws.x[1], high = place == 2 ? draws.x[2] : draws.x[3];
      lanes[0] *= scale(place < 2 ? low : high);
    } else {
      for_lanes<kWidth / 4>([&](int quad) {
        const PhiloxBlock draws = of_quad(first / 4 + quad);
        for_lanes<4>([&](int i) { lanes[4 * quad + i] *= scale(draws.x[i]); });
      });
    }
    store<kWidth>(y + first, lanes);
  }

  __device__ PhiloxBlock of_quad(std::int64_t quad) const {
    return ops::dropout_draws(seed, layer, *step, static_cast<std::uint64_t>(quad));
  }
};

}  // namespace

Implementations make_dropout(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const auto& [p, seed, layer] = spec.attributes<ops::Dropout>();
    const arithmetic::DropoutScale<Compute<T>> scale{static_cast<float>(p)};
    return function_kernel([=, seed = seed, layer = layer, size = spec.inputs[0].shape.size(),
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = std::max(4, kVectorWidth<T>);  // draws come in fours
      const Dropout<T> body{
          at<const T>(inputs, 0), at<const std::int32_t>(inputs, 1), at<T>(outputs, 0), seed, layer, scale};
      for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.x, body.y), body);
    });
  });
}

}  // namespace braid::cuda
