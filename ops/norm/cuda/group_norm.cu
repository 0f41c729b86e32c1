#include "ops/kernels/cuda/block_reduce.cuh"
#include "ops/norm/arithmetic.h"
#include "ops/norm/cuda/channel_tiles.cuh"
#include "ops/norm/group_norm.h"

namespace braid::cuda {

namespace {

/// x [images, pixels, channels] with channels in groups of `size`. An image has fewer than 2³¹ elements.
struct GroupShape {
  std::int64_t images;
  unsigned pixels, channels, groups, size;

  GroupShape(const Shape& x, const Shape& statistics)
      : images(x[0]),
        pixels(static_cast<unsigned>(x[1])),
        channels(static_cast<unsigned>(x[2])),
        groups(static_cast<unsigned>(statistics[1])),
        size(channels / groups) {
    for_row_groups("group_norm", 1, x[1] * x[2], [](std::int64_t, std::int64_t) {});
  }
};

/// The elements of one group of one image, which a block goes through.
template <int kBlock>
struct GroupPlace {
  unsigned group;
  std::int64_t first;  ///< element of the image
  unsigned elements;
  const GroupShape& g;

  __device__ explicit GroupPlace(const GroupShape& shape, unsigned block)
      : group(block % shape.groups),
        first(std::int64_t{block / shape.groups} * shape.pixels * shape.channels),
        elements(shape.pixels * shape.size),
        g(shape) {}
  /// Calls f(element, channel) for a thread's share.
  template <class F>
  __device__ void for_each(const F& f) const {
    for (unsigned i = threadIdx.x; i < elements; i += kBlock) {
      const unsigned pixel = i / g.size, channel = group * g.size + (i - pixel * g.size);
      f(first + std::int64_t{pixel} * g.channels + channel, channel);
    }
  }
  /// The sum of f(element, channel) over the group, in all threads.
  template <class F>
  __device__ double sum(const F& f) const {
    double part = 0;
    for_each([&](std::int64_t e, unsigned channel) { part += static_cast<double>(f(e, channel)); });
    part = block_sum<kBlock>(part);
    __shared__ double total;
    if (threadIdx.x == 0) total = part;
    __syncthreads();
    const double result = total;
    __syncthreads();  // before another sum is written there
    return result;
  }
};

template <int kBlock, class T, class C>
__global__ void __launch_bounds__(kBlock)
    group_norm_kernel(const __grid_constant__ GroupShape g, double epsilon, const T* x, const C* scale, const C* shift,
                      T* y, C* means, C* inverses) {
  for (std::int64_t block = blockIdx.x; block < g.images * g.groups; block += gridDim.x) {
    const GroupPlace<kBlock> place(g, static_cast<unsigned>(block));
    const double pivot = static_cast<double>(widen(x[place.first + place.group * g.size]));
    const double n = static_cast<double>(place.elements);
    const double mean =
        pivot + place.sum([&](std::int64_t e, unsigned) { return static_cast<double>(widen(x[e])) - pivot; }) / n;
    const double variance = place.sum([&](std::int64_t e, unsigned) {
      const double distance = static_cast<double>(widen(x[e])) - mean;
      return distance * distance;
    }) / n;
    const C average = static_cast<C>(mean), inverse = static_cast<C>(1 / sqrt(variance + epsilon));
    if (threadIdx.x == 0) {
      means[block] = average;
      inverses[block] = inverse;
    }
    place.for_each([&](std::int64_t e, unsigned channel) {
      y[e] = narrow<T>(arithmetic::Normalize<C>{}(widen(x[e]), average, inverse * scale[channel], shift[channel]));
    });
  }
}

template <int kBlock, class T, class C>
__global__ void __launch_bounds__(kBlock)
    group_norm_backward_kernel(const __grid_constant__ GroupShape g, const T* dy, const T* x, const C* scale,
                               const C* means, const C* inverses, T* dx) {
  for (std::int64_t block = blockIdx.x; block < g.images * g.groups; block += gridDim.x) {
    const GroupPlace<kBlock> place(g, static_cast<unsigned>(block));
    const C mean = means[block], inverse = inverses[block];
    const double n = static_cast<double>(place.elements), root = static_cast<double>(inverse);
    const auto average =
        static_cast<C>(place.sum([&](std::int64_t e, unsigned channel) { return scale[channel] * widen(dy[e]); }) / n);
    const auto slope = static_cast<C>(place.sum([&](std::int64_t e, unsigned channel) {
      return scale[channel] * widen(dy[e]) * (widen(x[e]) - mean);
    }) * root * root / n);
    place.for_each([&](std::int64_t e, unsigned channel) {
      dx[e] = narrow<T>(arithmetic::NormalizeGradient<C>{}(scale[channel] * widen(dy[e]), widen(x[e]), mean, inverse,
                                                           average, slope));
    });
  }
}

/// Terms of dβ and dγ. A vector of channels lies in one group.
template <class T>
struct NormTerms {
  using C = Compute<T>;
  GroupShape g;
  const T *dy, *x;
  const C *means, *inverses;

  template <int kWidth>
  struct Channels {
    const NormTerms& terms;
    unsigned group;
    struct Row {
      Packed<T, kWidth> dy, x;
      std::int64_t image;
    };
    __device__ Row read(std::int64_t e) const {
      const std::int64_t image_size = std::int64_t{terms.g.pixels} * terms.g.channels;
      return {load_packed<kWidth>(terms.dy + e), load_packed<kWidth>(terms.x + e), e / image_size};
    }
    __device__ void add(const Row& row, Lanes<C, kWidth> (&sums)[2]) const {
      const auto gradient = unpack(row.dy), lanes = unpack(row.x);
      const std::int64_t place = row.image * terms.g.groups + group;
      const C mean = terms.means[place], inverse = terms.inverses[place];
      for_lanes<kWidth>([&](int i) {
        sums[0][i] += gradient[i];
        sums[1][i] += gradient[i] * ((lanes[i] - mean) * inverse);
      });
    }
  };
  template <int kWidth>
  __device__ Channels<kWidth> start(int channel) const {
    return {*this, static_cast<unsigned>(channel) / g.size};
  }
};

template <class C>
struct WriteNormGradients {
  C *scale, *shift;
  __device__ void operator()(int channel, const ChannelSums<2>& sums) const {
    shift[channel] = static_cast<C>(sums.of[0]);
    scale[channel] = static_cast<C>(sums.of[1]);
  }
};

/// Calls f.operator()<threads of a block>(blocks).
template <class F>
void with_block(const GroupShape& g, int units, const F& f) {
  const std::int64_t blocks = g.images * g.groups;
  if (std::int64_t{g.pixels} * g.size >= 512) {
    f.template operator()<kThreads>(blocks_for(blocks, 1, units));
  } else {
    f.template operator()<32>(blocks_for(blocks, 1, units, 32));
  }
}

}  // namespace

Implementations make_group_norm(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    using C = Compute<T>;
    const GroupShape g(spec.inputs[0].shape, spec.outputs[1].shape);
    return function_kernel([g, epsilon = spec.attributes<ops::GroupNorm>().epsilon, units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      with_block(g, units, [&]<int kBlock>(unsigned blocks) {
        launch(stream, {.grid = blocks, .block = kBlock}, group_norm_kernel<kBlock, T, C>, g, epsilon,
               at<const T>(inputs, 0), at<const C>(inputs, 1), at<const C>(inputs, 2), at<T>(outputs, 0),
               at<C>(outputs, 1), at<C>(outputs, 2));
      });
    });
  });
}

Implementations make_group_norm_backward(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    using C = Compute<T>;
    constexpr int kWidth = kVectorWidth<T>;
    const GroupShape g(spec.inputs[0].shape, spec.inputs[3].shape);
    const std::int64_t rows = g.images * g.pixels;
    const auto wide = ChannelTiles::for_sums(rows, g.channels, kWidth, spec.info->capacity);
    const auto narrow_tiles = ChannelTiles::for_sums(rows, g.channels, 1, spec.info->capacity);
    const std::size_t bytes = sizeof(C) * std::max(partials_size(2, wide), partials_size(2, narrow_tiles));
    return function_kernel(bytes, [=, units = spec.info->capacity](const StreamHandles& stream, auto inputs,
                                                                   auto outputs, void* workspace) {
      const T *dy = at<const T>(inputs, 0), *x = at<const T>(inputs, 1);
      const C *means = at<const C>(inputs, 3), *inverses = at<const C>(inputs, 4);
      with_block(g, units, [&]<int kBlock>(unsigned blocks) {
        launch(stream, {.grid = blocks, .block = kBlock}, group_norm_backward_kernel<kBlock, T, C>, g, dy, x,
               at<const C>(inputs, 2), means, inverses, at<T>(outputs, 0));
      });
      const NormTerms<T> terms{g, dy, x, means, inverses};
      const WriteNormGradients<C> write{at<C>(outputs, 1), at<C>(outputs, 2)};
      with_width<kWidth>(g.size % kWidth == 0 && is_aligned<kWidth>(dy, x), [&]<int kLanes>() {
        const ChannelTiles& tiles = kLanes == 1 ? narrow_tiles : wide;
        launch(stream, tiles.launch_shape(), column_sums_kernel<2, 2, kLanes, C, NormTerms<T>, WriteNormGradients<C>>,
               tiles, terms, write, static_cast<C*>(workspace), stream.arrivals);
      });
    });
  });
}

}  // namespace braid::cuda
