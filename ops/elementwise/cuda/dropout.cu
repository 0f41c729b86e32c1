#include "ops/common/arithmetic.h"
#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/elementwise/dropout.h"

namespace braid::cuda {

namespace {

template <class T>
struct Dropout {
  const T* x;
  const std::int32_t* step;
  const std::int32_t* shard;  // its number; null: x is whole
  ops::DropoutRuns runs;      // of which a vector is in one
  T* y;
  std::uint64_t seed;
  std::uint32_t layer;
  arithmetic::DropoutScale<Compute<T>> scale;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(x + first);
    ops::DropoutRuns own = runs;
    if (shard != nullptr) own.number = *shard;
    const std::int64_t begin = shard == nullptr ? first : own.in_whole(first);
    if (kWidth == 1 || begin % 4 != 0) {
      for_lanes<kWidth>([&](int i) { lanes[i] *= scale(of_element(begin + i)); });
    } else {
      for_lanes<kWidth / 4>([&](int quad) {
        const PhiloxBlock draws = of_quad(begin / 4 + quad);
        for_lanes<4>([&](int i) { lanes[4 * quad + i] *= scale(draws.x[i]); });
      });
    }
    store<kWidth>(y + first, lanes);
  }

  __device__ std::uint32_t of_element(std::int64_t element) const {
    const PhiloxBlock draws = of_quad(element / 4);
    const auto place = element % 4;  // selected, not indexed: an array with an index has to live in memory
    const std::uint32_t low = place == 0 ? draws.x[0] : draws.x[1], high = place == 2 ? draws.x[2] : draws.x[3];
    return place < 2 ? low : high;
  }

  __device__ PhiloxBlock of_quad(std::int64_t quad) const {
    return ops::dropout_draws(seed, layer, *step, static_cast<std::uint64_t>(quad));
  }
};

}  // namespace

Implementations make_dropout(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const auto& [p, seed, layer, axis, shards] = spec.attributes<ops::Dropout>();
    const ops::DropoutRuns runs = static_cast<const ops::Dropout&>(spec.op).runs(spec.inputs[0].shape, 0);
    const arithmetic::DropoutScale<Compute<T>> scale{static_cast<float>(p)};
    return function_kernel([=, seed = seed, layer = layer, size = spec.inputs[0].shape.size(),
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = std::max(4, kVectorWidth<T>);  // draws come in fours
      const Dropout<T> body{.x = at<const T>(inputs, 0),
                            .step = at<const std::int32_t>(inputs, 1),
                            .shard = inputs.size() < 3 ? nullptr : at<const std::int32_t>(inputs, 2),
                            .runs = runs,
                            .y = at<T>(outputs, 0),
                            .seed = seed,
                            .layer = layer,
                            .scale = scale};
      for_each_element<kWidth>(stream, units, size,
                               is_aligned<kWidth>(body.x, body.y) && (runs.shards == 1 || runs.length % kWidth == 0),
                               body);
    });
  });
}

}  // namespace braid::cuda
