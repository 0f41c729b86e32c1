#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/norm/cuda/channel_tiles.cuh"
#include "ops/pool/cuda/pixels.cuh"

namespace braid::cuda {

namespace {

/// The number of elements in a window's mean.
struct InsideSize {
  template <class Axis>
  __device__ int operator()(const PoolShape<Axis>& pool, int p, int q) const {
    return pool.h.inside(p).size() * pool.w.inside(q).size();
  }
};
/// Either with or without the padding.
struct WindowSize {
  bool padded;
  __device__ int operator()(const PoolShape<WindowAxis<int, Divisor>>& pool, int p, int q) const {
    return padded ? pool.h.padded_size(p) * pool.w.padded_size(q) : InsideSize{}(pool, p, q);
  }
};

/// The mean of x over each window; or, backward, the sum of dy over the windows that contain the pixel, each divided by
/// its size.
template <bool kBackward, int kWidth, class T, class Axis, class Size>
__global__ void __launch_bounds__(kThreads, 4)
    average_kernel(const __grid_constant__ PoolShape<Axis> pool, const __grid_constant__ PixelGrid grid,
                   Size window_size, const T* from, T* to) {
  if constexpr (!kBackward) {
    for_each_pixel<kWidth>(grid, [&](int image, int p, int q, int channel) {
      const auto weight = 1 / static_cast<Compute<T>>(window_size(pool, p, q));
      Lanes<Compute<T>, kWidth> mean = {};
      for_rectangle(pool.h.inside(p), pool.w.inside(q), [&](int row, int column) {
        const auto lanes = load<kWidth>(from + pool.input(image, row, column, channel));
        for_lanes<kWidth>([&](int i) { mean[i] += weight * lanes[i]; });
      });
      store<kWidth>(to + pool.output(image, p, q, channel), mean);
    });
  } else {
    for_each_pixel<kWidth>(grid, [&](int image, int row, int column, int channel) {
      Lanes<Compute<T>, kWidth> sum = {};
      for_rectangle(pool.h.outputs_over(row), pool.w.outputs_over(column), [&](int p, int q) {
        const auto weight = 1 / static_cast<Compute<T>>(window_size(pool, p, q));
        const auto lanes = load<kWidth>(from + pool.output(image, p, q, channel));
        for_lanes<kWidth>([&](int i) { sum[i] += weight * lanes[i]; });
      });
      store<kWidth>(to + pool.input(image, row, column, channel), sum);
    });
  }
}

template <bool kBackward, class Axis, class Size>
std::unique_ptr<Kernel> average(const KernelSpec& spec, const Geometry<Axis>& g, Size window_size) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([g, window_size, name = spec.op.name(), units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* from = at<const T>(inputs, 0);
      T* to = at<T>(outputs, 0);
      const bool vectors = g.channels % kWidth == 0 && is_aligned<kWidth>(from, to);
      for_image_groups(name, g, [&](const PoolShape<Axis>& pool, std::int64_t input, std::int64_t output) {
        const std::int64_t pixels = kBackward ? g.h.input * g.w.input : g.h.output * g.w.output;
        const std::int64_t size = pool.images * pixels * g.channels;
        with_width<kWidth>(vectors, [&]<int kLanes>() {
          launch(stream, stride_shape(size, kLanes, units), average_kernel<kBackward, kLanes, T, Axis, Size>, pool,
                 kBackward ? pool.inputs(kLanes) : pool.outputs(kLanes), window_size,
                 from + (kBackward ? output : input), to + (kBackward ? input : output));
        });
      });
    });
  });
}

/// Windows of adaptive pooling are computed from products of extents.
void check_adaptive(const KernelSpec& spec, const Geometry<AdaptiveAxis<int>>& g) {
  for (const auto& axis : {g.h, g.w}) {
    BRAID_CHECK((std::int64_t{axis.input} + 1) * (std::int64_t{axis.output} + 1) < std::int64_t{1} << 31, Error, "[",
                spec.op.name(), "] expected extents whose product is below 2^31, got ", axis.input, " and ",
                axis.output);
  }
}

/// A block sums one tile of channels of one image, as channel_tiles.cuh describes.
template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    global_average_kernel(const __grid_constant__ ChannelTiles image_tiles, const T* x, T* y) {
  const TilePlace<kWidth> place(image_tiles);  // row blocks are images
  const std::int64_t image = place.row_block, image_size = image_tiles.rows * image_tiles.channels;
  Lanes<Compute<T>, kWidth> sums[1] = {};
  if (place.inside) {
    for_rows<4>(
        std::int64_t{threadIdx.y} * image_tiles.channels + place.channel,
        std::int64_t{blockDim.y} * image_tiles.channels, image_size,
        [&](std::int64_t e) { return load_packed<kWidth>(x + image * image_size + e); },
        [&](std::int64_t, const auto& row) {
          const auto lanes = unpack(row);
          for_lanes<kWidth>([&](int i) { sums[0][i] += lanes[i]; });
        });
  }
  sum_down(sums);
  if (threadIdx.y > 0 || !place.inside) return;
  for_lanes<kWidth>([&](int i) { sums[0][i] /= static_cast<Compute<T>>(image_tiles.rows); });
  store<kWidth>(y + image * image_tiles.channels + place.channel, sums[0]);
}

template <int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    global_average_backward_kernel(const __grid_constant__ PixelGrid grid, int pixels, int channels, const T* dy,
                                   T* dx) {
  const auto scale = 1 / static_cast<Compute<T>>(pixels);
  for_each_pixel<kWidth>(grid, [&](int image, int, int pixel, int channel) {
    auto lanes = load<kWidth>(dy + (image * channels + channel));
    for_lanes<kWidth>([&](int i) { lanes[i] *= scale; });
    store<kWidth>(dx + ((image * pixels + pixel) * channels + channel), lanes);
  });
}

}  // namespace

Implementations make_avg_pool2d(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2d>();
  return average<false>(spec, windows<int, Divisor>(options, spec.inputs[0].shape, spec.outputs[0].shape),
                        WindowSize{options.count_include_pad});
}

Implementations make_avg_pool2d_backward(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2dBackward>().options;
  return average<true>(spec, windows<int, Divisor>(options, spec.outputs[0].shape, spec.inputs[0].shape),
                       WindowSize{options.count_include_pad});
}

Implementations make_adaptive_avg_pool2d(const KernelSpec& spec) {
  const auto g = adaptive_windows<int>(spec.inputs[0].shape, spec.outputs[0].shape);
  check_adaptive(spec, g);
  return average<false>(spec, g, InsideSize{});
}

Implementations make_adaptive_avg_pool2d_backward(const KernelSpec& spec) {
  const auto g = adaptive_windows<int>(spec.outputs[0].shape, spec.inputs[0].shape);
  check_adaptive(spec, g);
  return average<true>(spec, g, InsideSize{});
}

Implementations make_global_avg_pool(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const Shape& shape = spec.inputs[0].shape;
    return function_kernel([images = shape[0], pixels = shape[1] * shape[2], channels = shape[3]](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      with_width<kWidth>(channels % kWidth == 0 && is_aligned<kWidth>(x, y), [&]<int kLanes>() {
        ChannelTiles tiles(pixels, channels, kLanes, kSumsAcross<kLanes>, 1, 1);
        tiles.row_blocks = static_cast<unsigned>(images);
        launch(stream, tiles.launch_shape(), global_average_kernel<kLanes, T>, tiles, x, y);
      });
    });
  });
}

Implementations make_global_avg_pool_backward(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const Shape& shape = spec.outputs[0].shape;
    return function_kernel([images = shape[0], pixels = shape[1] * shape[2], channels = shape[3],
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* dy = at<const T>(inputs, 0);
      T* dx = at<T>(outputs, 0);
      const bool vectors = channels % kWidth == 0 && is_aligned<kWidth>(dy, dx);
      for_row_groups(
          "global_avg_pool_backward", images, pixels * channels, [&](std::int64_t first, std::int64_t count) {
            with_width<kWidth>(vectors, [&]<int kLanes>() {
              launch(
                  stream, stride_shape(count * pixels * channels, kLanes, units),
                  global_average_backward_kernel<kLanes, T>,
                  PixelGrid(static_cast<int>(count), 1, static_cast<int>(pixels), static_cast<int>(channels) / kLanes),
                  static_cast<int>(pixels), static_cast<int>(channels), dy + first * channels,
                  dx + first * pixels * channels);
            });
          });
    });
  });
}

}  // namespace braid::cuda
