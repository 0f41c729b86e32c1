#pragma once
// Kernels whose elements do not depend on each other. A body says what happens to kWidth neighbouring elements; it
// reads them all before it writes, so an output may lie exactly on an input.

#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

/// Calls f.operator()<kWidth>(first) for the whole vectors of [0, size) and f.operator()<1>(i) for what is left, each
/// in one thread of the grid.
template <int kWidth, class F>
__device__ void for_each_in_grid(std::int64_t size, const F& f) {
  const std::int64_t vectors = size / kWidth, threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t i = thread; i < vectors; i += threads) f.template operator()<kWidth>(i * kWidth);
  if constexpr (kWidth > 1) {
    const std::int64_t rest = vectors * kWidth + thread;  // a block has more threads than a vector has elements
    if (rest < size) f.template operator()<1>(rest);
  }
}

template <int kWidth, class Body>
__global__ void __launch_bounds__(kThreads) for_each_kernel(std::int64_t size, const __grid_constant__ Body body) {
  for_each_in_grid<kWidth>(size, [&]<int kLanes>(std::int64_t first) { body.template apply<kLanes>(first); });
}

/// `units` are the SMs of the device. Launches nothing for an empty tensor.
template <int kWidth, class Body>
void for_each_element(const StreamHandles& stream, int units, std::int64_t size, bool aligned, const Body& body) {
  static_assert(kWidth <= kThreads);
  with_width<kWidth>(aligned, [&]<int kLanes>() {
    launch(stream, stride_shape(size, kLanes, units), for_each_kernel<kLanes, Body>, size, body);
  });
}

}  // namespace braid::cuda
