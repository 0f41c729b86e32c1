#pragma once
// Pooling kernels compute one vector of channels of one pixel per thread, in both directions: a gradient gathers from
// the windows over its pixel, so nothing is ever added by two threads.

#include "ops/common/pool_windows.h"
#include "ops/cuda/elements.cuh"

namespace braid::cuda {

/// Calls f(image, row, column, channel) for every pixel [images,h,w] and vector of channels, each in one thread of the
/// grid.
template <int kWidth, class F>
__device__ void for_each_pixel(int images, int h, int w, int channels, const F& f) {
  const unsigned vectors = static_cast<unsigned>(channels) / kWidth;
  const unsigned size = static_cast<unsigned>(images * h * w) * vectors, threads = gridDim.x * kThreads;
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < size; i += threads) {
    const int pixel = static_cast<int>(i / vectors), line = pixel / w;
    f(line / h, line % h, pixel % w, static_cast<int>(i % vectors) * kWidth);
  }
}

/// Calls f(row, column) for a rectangle of pixels, row by row.
template <class F>
__device__ void for_rectangle(const Range<int>& rows, const Range<int>& columns, const F& f) {
  for (int row = rows.begin; row < rows.end; ++row) {
#pragma unroll 3  // the most frequent width of a window
    for (int column = columns.begin; column < columns.end; ++column) f(row, column);
  }
}

/// A geometry as kernels take it: all offsets into a group of images fit into 32 bits.
template <class Axis>
struct PoolShape {
  int images;
  int channels;
  Axis h, w;

  __device__ int input(int image, int row, int column, int channel) const {
    return ((image * h.input + row) * w.input + column) * channels + channel;
  }
  __device__ int output(int image, int row, int column, int channel) const {
    return ((image * h.output + row) * w.output + column) * channels + channel;
  }
};

/// Calls launch_images(shape, input elements to skip, output elements to skip) for groups of images that are small
/// enough.
template <class Axis, class LaunchImages>
void for_image_groups(std::string_view op, const Geometry<Axis>& g, const LaunchImages& launch_images) {
  const std::int64_t input = std::int64_t{g.h.input} * g.w.input * g.channels;
  const std::int64_t output = std::int64_t{g.h.output} * g.w.output * g.channels;
  for_row_groups(op, g.images, std::max(input, output), [&](std::int64_t first, std::int64_t images) {
    const PoolShape<Axis> shape{static_cast<int>(images), static_cast<int>(g.channels), g.h, g.w};
    launch_images(shape, first * input, first * output);
  });
}

}  // namespace braid::cuda
