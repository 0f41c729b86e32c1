#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/matmul/cuda/bias.h"

namespace braid::cuda {

namespace {

/// y = y + bias, kept within the range. A vector lies in one row.
template <class T>
struct AddBias {
  T* y;
  const T* bias;  // or null
  ActivationRange range;
  std::int64_t channels;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(y + first);
    if (bias != nullptr) {
      const auto row = load<kWidth>(bias + first % channels);
      for_lanes<kWidth>([&](int i) { lanes[i] += row[i]; });
    }
    for_lanes<kWidth>([&](int i) { lanes[i] = range(lanes[i]); });
    store<kWidth>(y + first, lanes);
  }
};

}  // namespace

void add_bias(const StreamHandles& stream, int units, void* y, const void* bias, Activation activation,
              std::int64_t rows, std::int64_t channels, DType dtype) {
  BRAID_CHECK(is_floating(dtype), Error, "[bias] expected a floating dtype, got ", dtype);
  for_any_float(dtype, [&]<class T>() {
    constexpr int kWidth = kVectorWidth<T>;
    const AddBias<T> body{static_cast<T*>(y), static_cast<const T*>(bias), range_of(activation), channels};
    const bool vectors = channels % kWidth == 0 && is_aligned<kWidth>(body.y, body.bias);
    for_each_element<kWidth>(stream, units, rows * channels, vectors, body);
  });
}

}  // namespace braid::cuda
