#pragma once
// Pooling kernels compute one vector of channels of one pixel per thread, in both directions: a gradient gathers from
// the windows over its pixel, so nothing is ever added by two threads.

#include <bit>

#include "ops/kernels/cuda/elements.cuh"
#include "ops/pool/pool_windows.h"

namespace braid::cuda {

/// A divisor of numbers from 0 to 2³¹ − 1, by multiplication: a GPU has no instruction that divides. Granlund and
/// Montgomery, Division by Invariant Integers using Multiplication, theorem 4.2.
class Divisor {
 public:
  explicit Divisor(int value = 1)
      : value_(value),
        shift_(31 + std::bit_width(static_cast<unsigned>(value - 1))),
        multiplier_(static_cast<unsigned>((std::uint64_t{1} << shift_) / static_cast<unsigned>(value) + 1)) {}

  __host__ __device__ operator int() const { return value_; }
  __host__ __device__ friend int operator/(int n, const Divisor& d) {
    return static_cast<int>(std::uint64_t{static_cast<unsigned>(n)} * d.multiplier_ >> d.shift_);
  }

 private:
  int value_, shift_;
  unsigned multiplier_;
};

/// The pixels [images,h,w] that a kernel computes, and the vectors of channels of each.
struct PixelGrid {
  int size = 0;  ///< vectors in all
  Divisor h, w, vectors;

  PixelGrid(int images, int rows, int columns, int vectors_of_pixel)
      : size(images * rows * columns * vectors_of_pixel),
        h(std::max(rows, 1)),
        w(std::max(columns, 1)),
        vectors(std::max(vectors_of_pixel, 1)) {}
};

/// Calls f(image, row, column, channel) for every pixel and vector of channels, each in one thread of the grid.
template <int kWidth, class F>
__device__ void for_each_pixel(const PixelGrid& grid, const F& f) {
  const unsigned threads = gridDim.x * kThreads;
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < static_cast<unsigned>(grid.size); i += threads) {
    const int at = static_cast<int>(i), pixel = at / grid.vectors, line = pixel / grid.w, image = line / grid.h;
    f(image, line - image * grid.h, pixel - line * grid.w, (at - pixel * grid.vectors) * kWidth);
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
  PixelGrid inputs(int width) const { return {images, h.input, w.input, channels / width}; }
  PixelGrid outputs(int width) const { return {images, h.output, w.output, channels / width}; }
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
