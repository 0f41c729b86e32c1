#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/elementwise/random.h"

namespace braid::cuda {

namespace {

template <class T>
struct RandomNumbers {
  ops::RandomAttributes attributes;
  const std::int32_t* step;
  T* y;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    Lanes<Compute<T>, kWidth> lanes;
    if constexpr (kWidth == 1) {
      const ops::RandomQuad<Compute<T>> numbers(attributes, *step, first / 4);
      const auto place = first % 4;  // selected, not indexed: an array with an index has to live in memory
      lanes[0] = place < 2 ? (place == 0 ? numbers.at[0] : numbers.at[1]) : place == 2 ? numbers.at[2] : numbers.at[3];
    } else {
      for_lanes<kWidth / 4>([&](int quad) {
        const ops::RandomQuad<Compute<T>> numbers(attributes, *step, first / 4 + quad);
        for_lanes<4>([&](int i) { lanes[4 * quad + i] = numbers.at[i]; });
      });
    }
    store<kWidth>(y + first, lanes);
  }
};

}  // namespace

Implementations make_random(const KernelSpec& spec) {
  return for_any_float(spec.outputs[0].dtype, [&]<class T>() {
    return function_kernel([attributes = spec.attributes<ops::Random>(), size = spec.outputs[0].shape.size(),
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = std::max(4, kVectorWidth<T>);  // numbers come in fours
      const RandomNumbers<T> body{attributes, at<const std::int32_t>(inputs, 0), at<T>(outputs, 0)};
      for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.y), body);
    });
  });
}

}  // namespace braid::cuda
