#include "ops/cuda/channel_tiles.cuh"

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
    const std::int64_t channels = shape[shape.rank() - 1], rows = row_count(shape);
    const auto tiles_of = [&](int width) {
      return ChannelTiles(rows, channels, width, 32, 2 * kRows, 2 * spec.info->capacity);
    };
    const ChannelTiles wide = tiles_of(kWidth), narrow_tiles = tiles_of(1);
    const std::size_t bytes = sizeof(C) * std::max(partials_size(1, wide), partials_size(1, narrow_tiles));
    return function_kernel(bytes, [=](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
      const Elements<T> terms{at<const T>(inputs, 0)};
      C* const partials = static_cast<C*>(workspace);
      const bool vectors = channels % kWidth == 0 && is_aligned<kWidth>(terms.x);
      const ChannelTiles& tiles = vectors ? wide : narrow_tiles;
      const auto kernel = vectors ? partial_sums_kernel<1, kRows, kWidth, C, Elements<T>>
                                  : partial_sums_kernel<1, kRows, 1, C, Elements<T>>;
      launch(stream, tiles.launch_shape(), kernel, tiles, terms, partials);
      finish_sums<1>(stream, tiles, static_cast<const C*>(partials), WriteSum<T>{at<T>(outputs, 0)});
    });
  });
}

}  // namespace braid::cuda
