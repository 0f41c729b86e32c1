#include <cmath>

#include "ops/common/arithmetic.h"
#include "ops/pool/cuda/pixels.cuh"

namespace braid::cuda {

namespace {

using Pool = PoolShape<WindowAxis<int, Divisor>>;

template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    max_pool_kernel(const __grid_constant__ Pool pool, const __grid_constant__ PixelGrid grid, const T* x, T* y,
                    std::uint8_t* places) {
  const auto maximum_of_window = [&](int image, int p, int q, int channel) {
    const Range<int> rows = pool.h.inside(p), columns = pool.w.inside(q);
    const int row_start = pool.h.start(p), column_start = pool.w.start(q);
    const auto place_of = [&](int row, int column) {
      return (row - row_start) * pool.w.window + column - column_start;
    };
    Lanes<Compute<T>, kWidth> best;
    Lanes<int, kWidth> best_place;
    for_lanes<kWidth>([&](int i) {
      best[i] = static_cast<Compute<T>>(-INFINITY);
      best_place[i] = place_of(rows.begin, columns.begin);
    });
    for_rectangle(rows, columns, [&](int row, int column) {
      const auto candidate = load<kWidth>(x + pool.input(image, row, column, channel));
      const int place = place_of(row, column);
      for_lanes<kWidth>([&](int i) {
        const bool larger = arithmetic::Larger<Compute<T>>{}(candidate[i], best[i]);
        best[i] = larger ? candidate[i] : best[i];
        best_place[i] = larger ? place : best_place[i];
      });
    });
    const int to = pool.output(image, p, q, channel);
    store<kWidth>(y + to, best);
    Packed<std::uint8_t, kWidth> bytes;
    for_lanes<kWidth>([&](int i) { bytes.at[i] = static_cast<std::uint8_t>(best_place[i]); });
    store_packed<kWidth>(places + to, bytes);
  };
  for_each_pixel<kWidth>(grid, maximum_of_window);
}

/// dx = the sum of dy over the windows whose maximum was here.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    max_pool_backward_kernel(const __grid_constant__ Pool pool, const __grid_constant__ PixelGrid grid, const T* dy,
                             const std::uint8_t* places, T* dx) {
  const auto gradient_of_pixel = [&](int image, int row, int column, int channel) {
    Lanes<Compute<T>, kWidth> sum = {};
    for_rectangle(pool.h.outputs_over(row), pool.w.outputs_over(column), [&](int p, int q) {
      const int from = pool.output(image, p, q, channel);
      const int here = (row - pool.h.start(p)) * pool.w.window + column - pool.w.start(q);
      const auto gradient = load<kWidth>(dy + from);
      const auto maxima = load_packed<kWidth>(places + from);
      for_lanes<kWidth>([&](int i) { sum[i] += maxima.at[i] == here ? gradient[i] : Compute<T>(0); });
    });
    store<kWidth>(dx + pool.input(image, row, column, channel), sum);
  };
  for_each_pixel<kWidth>(grid, gradient_of_pixel);
}

}  // namespace

Implementations make_max_pool2d(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const PoolOptions& options = spec.attributes<ops::MaxPool2d>();
    const auto g = windows<int, Divisor>(options, spec.inputs[0].shape, spec.outputs[0].shape);
    return function_kernel([g, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      std::uint8_t* places = at<std::uint8_t>(outputs, 1);
      const bool vectors = g.channels % kWidth == 0 && is_aligned<kWidth>(x, y, places);
      for_image_groups("max_pool2d", g, [&](const Pool& pool, std::int64_t input, std::int64_t output) {
        const std::int64_t size = std::int64_t{pool.images} * g.h.output * g.w.output * g.channels;
        with_width<kWidth>(vectors, [&]<int kLanes>() {
          launch(stream, stride_shape(size, kLanes, units), max_pool_kernel<kLanes, T>, pool, pool.outputs(kLanes),
                 x + input, y + output, places + output);
        });
      });
    });
  });
}

Implementations make_max_pool2d_backward(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const PoolOptions& options = spec.attributes<ops::MaxPool2dBackward>().options;
    const auto g = windows<int, Divisor>(options, spec.outputs[0].shape, spec.inputs[0].shape);
    return function_kernel([g, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* dy = at<const T>(inputs, 0);
      const std::uint8_t* places = at<const std::uint8_t>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      const bool vectors = g.channels % kWidth == 0 && is_aligned<kWidth>(dy, dx, places);
      for_image_groups("max_pool2d_backward", g, [&](const Pool& pool, std::int64_t input, std::int64_t output) {
        const std::int64_t size = std::int64_t{pool.images} * g.h.input * g.w.input * g.channels;
        with_width<kWidth>(vectors, [&]<int kLanes>() {
          launch(stream, stride_shape(size, kLanes, units), max_pool_backward_kernel<kLanes, T>, pool,
                 pool.inputs(kLanes), dy + output, places + output, dx + input);
        });
      });
    });
  });
}

}  // namespace braid::cuda
