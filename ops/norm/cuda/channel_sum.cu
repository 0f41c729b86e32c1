#include "ops/norm/cuda/channel_tiles.cuh"

namespace braid::cuda {

namespace {

template <class T>
struct Elements {
  const T* x;

  template <int kWidth>
  struct Channels {
    const T* x;
    __device__ auto read(std::int64_t e) const { return load_packed<kWidth>(x + e); }
    __device__ void add(const Packed<T, kWidth>& row, Lanes<Compute<T>, kWidth> (&sums)[1]) const {
      const auto lanes = unpack(row);
      for_lanes<kWidth>([&](int i) { sums[0][i] += lanes[i]; });
    }
  };
  template <int kWidth>
  __device__ Channels<kWidth> start(int) const {
    return {x};
  }
};

template <class T>
struct WriteSum {
  T* y;
  __device__ void operator()(int channel, const ChannelSums<1>& sums) const {
    y[channel] = narrow<T>(static_cast<Compute<T>>(sums.of[0]));
  }
};

}  // namespace

Implementations make_channel_sum(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    using C = Compute<T>;
    constexpr int kWidth = kVectorWidth<T>, kRows = 4;
    const Shape& shape = spec.inputs[0].shape;
    const std::int64_t channels = shape[-1], rows = row_count(shape);
    const auto wide = ChannelTiles::for_sums(rows, channels, kWidth, spec.info->capacity);
    const auto narrow_tiles = ChannelTiles::for_sums(rows, channels, 1, spec.info->capacity);
    const std::size_t bytes = sizeof(C) * std::max(partials_size(1, wide), partials_size(1, narrow_tiles));
    return function_kernel(bytes, [=](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
      const Elements<T> terms{at<const T>(inputs, 0)};
      with_width<kWidth>(channels % kWidth == 0 && is_aligned<kWidth>(terms.x), [&]<int kLanes>() {
        const ChannelTiles& tiles = kLanes == 1 ? narrow_tiles : wide;
        launch(stream, tiles.launch_shape(), column_sums_kernel<1, kRows, kLanes, C, Elements<T>, WriteSum<T>>, tiles,
               terms, WriteSum<T>{at<T>(outputs, 0)}, static_cast<C*>(workspace), stream.arrivals);
      });
    });
  });
}

}  // namespace braid::cuda
