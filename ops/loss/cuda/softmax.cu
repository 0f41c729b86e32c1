// A warp computes a row along the innermost axis, a thread one along any other: then neighbouring threads read
// neighbouring elements.

#include <cmath>

#include "ops/elementwise/functions.h"
#include "ops/kernels/cuda/elements.cuh"
#include "ops/kernels/cuda/warp_reduce.cuh"
#include "ops/loss/softmax.h"

namespace braid::cuda {

namespace {

/// Calls f(first element, lane) for every row. kLanes is kWarp or 1.
template <int kLanes, class F>
__device__ void for_each_softmax(const ops::SoftmaxExtents& x, const F& f) {
  constexpr int kRows = kThreads / kLanes;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes; row < x.outer * x.inner;
       row += std::int64_t{gridDim.x} * kRows) {
    f(row / x.inner * x.length * x.inner + row % x.inner, static_cast<int>(threadIdx.x) % kLanes);
  }
}

template <int kLanes, class T>
__device__ T sum_of_lanes(T value) {
  if constexpr (kLanes == kWarp) return warp_sum(value);
  return value;
}

template <int kLanes, bool kLogarithm, class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(ops::SoftmaxExtents extents, const T* x, T* y) {
  using C = Compute<T>;
  for_each_softmax<kLanes>(extents, [&](std::int64_t first, int lane) {
    const auto element = [&](std::int64_t l) { return widen(x[first + l * extents.inner]); };
    C largest = static_cast<C>(-INFINITY);
    double total = 0;
    for (std::int64_t l = lane; l < extents.length; l += kLanes) {
      const C value = element(l);
      largest = arithmetic::Larger<C>{}(value, largest) ? value : largest;
    }
    if constexpr (kLanes == kWarp) largest = warp_maximum(largest);
    for (std::int64_t l = lane; l < extents.length; l += kLanes)
      total += static_cast<double>(functions::exp(element(l) - largest));
    total = sum_of_lanes<kLanes>(total);
    const C last = static_cast<C>(kLogarithm ? std::log(total) : 1 / total);
    for (std::int64_t l = lane; l < extents.length; l += kLanes) {
      const C shifted = element(l) - largest;
      y[first + l * extents.inner] = narrow<T>(kLogarithm ? shifted - last : functions::exp(shifted) * last);
    }
  });
}

template <int kLanes, bool kLogarithm, class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(ops::SoftmaxExtents extents, const T* dy, const T* y, T* dx) {
  using C = Compute<T>;
  for_each_softmax<kLanes>(extents, [&](std::int64_t first, int lane) {
    double total = 0;
    for (std::int64_t l = lane; l < extents.length; l += kLanes) {
      const std::int64_t e = first + l * extents.inner;
      total += static_cast<double>(kLogarithm ? widen(dy[e]) : widen(dy[e]) * widen(y[e]));
    }
    const C sum = static_cast<C>(sum_of_lanes<kLanes>(total));
    for (std::int64_t l = lane; l < extents.length; l += kLanes) {
      const std::int64_t e = first + l * extents.inner;
      const C of_y = widen(y[e]), of_dy = widen(dy[e]);
      dx[e] = narrow<T>(kLogarithm ? of_dy - functions::exp(of_y) * sum : of_y * (of_dy - sum));
    }
  });
}

/// Calls make.operator()<T, kLanes, kLogarithm>(extents, shape of the launch).
template <class Op, class Make>
Implementations make_any_softmax(const KernelSpec& spec, const Make& make) {
  const auto& attributes = spec.attributes<Op>();
  const ops::SoftmaxExtents x(spec.outputs[0].shape, attributes.axis);
  const bool innermost = x.inner == 1;
  const LaunchShape shape{
      .grid = blocks_for(x.outer * x.inner, innermost ? kThreads / kWarp : kThreads, spec.info->capacity),
      .block = kThreads};
  return for_any_float(spec.outputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    if (attributes.logarithm) {
      return innermost ? make.template operator()<T, kWarp, true>(x, shape)
                       : make.template operator()<T, 1, true>(x, shape);
    }
    return innermost ? make.template operator()<T, kWarp, false>(x, shape)
                     : make.template operator()<T, 1, false>(x, shape);
  });
}

}  // namespace

Implementations make_softmax(const KernelSpec& spec) {
  return make_any_softmax<ops::Softmax>(spec, [&]<class T, int kLanes, bool kLogarithm>(const auto& x, auto shape) {
    return std::unique_ptr<Kernel>(function_kernel([x, shape](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, shape, softmax_kernel<kLanes, kLogarithm, T>, x, at<const T>(inputs, 0), at<T>(outputs, 0));
    }));
  });
}

Implementations make_softmax_backward(const KernelSpec& spec) {
  return make_any_softmax<ops::SoftmaxBackward>(spec, [&]<class T, int kLanes, bool kLogarithm>(const auto& x,
                                                                                                auto shape) {
    return std::unique_ptr<Kernel>(function_kernel([x, shape](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, shape, softmax_backward_kernel<kLanes, kLogarithm, T>, x, at<const T>(inputs, 0),
             at<const T>(inputs, 1), at<T>(outputs, 0));
    }));
  });
}

}  // namespace braid::cuda
