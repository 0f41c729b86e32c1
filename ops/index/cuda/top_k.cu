#include "ops/index/top_k.h"
#include "ops/kernels/cuda/elements.cuh"
#include "ops/kernels/cuda/warp_reduce.cuh"

namespace braid::cuda {

namespace {

template <class C>
struct Ranked {
  C element;
  std::int64_t place;  // -1: nothing
};

template <class C>
__device__ Ranked<C> first_of(bool largest, Ranked<C> a, Ranked<C> b) {
  if (b.place < 0) return a;
  return a.place >= 0 && arithmetic::comes_before(largest, a.element, a.place, b.element, b.place) ? a : b;
}

/// A warp finds one element of a row after the other: the first of those that come after the last one found.
template <class T>
__global__ void __launch_bounds__(kThreads) top_k_kernel(std::int64_t rows, std::int64_t length, std::int64_t k,
                                                         bool largest, const T* x, T* values, std::int32_t* places) {
  using C = Compute<T>;
  constexpr int kRows = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp; row < rows;
       row += std::int64_t{gridDim.x} * kRows) {
    const T* const of_row = x + row * length;
    Ranked<C> last{C(0), -1};
    for (std::int64_t i = 0; i < k; ++i) {
      Ranked<C> found{C(0), -1};
      for (std::int64_t place = lane; place < length; place += kWarp) {
        const Ranked<C> candidate{widen(of_row[place]), place};
        const bool is_left = last.place < 0 || arithmetic::comes_before(largest, last.element, last.place,
                                                                        candidate.element, candidate.place);
        if (is_left) found = first_of(largest, found, candidate);
      }
      for (int step = kWarp / 2; step > 0; step /= 2) {
        const Ranked<C> other{__shfl_xor_sync(kAllLanes, found.element, step),
                              __shfl_xor_sync(kAllLanes, found.place, step)};
        found = first_of(largest, found, other);
      }
      last = found;
      if (lane == 0) {
        values[row * k + i] = narrow<T>(found.element);
        places[row * k + i] = static_cast<std::int32_t>(found.place);
      }
    }
  }
}

}  // namespace

Implementations make_top_k(const KernelSpec& spec) {
  const auto& [k, largest] = spec.attributes<ops::TopK>();
  const Shape& x = spec.inputs[0].shape;
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([=, k = k, largest = largest, length = x[-1], rows = k == 0 ? 0 : x.size() / x[-1],
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, {.grid = blocks_for(rows, kThreads / kWarp, units), .block = kThreads}, top_k_kernel<T>, rows,
             length, k, largest, at<const T>(inputs, 0), at<T>(outputs, 0), at<std::int32_t>(outputs, 1));
    });
  });
}

}  // namespace braid::cuda
