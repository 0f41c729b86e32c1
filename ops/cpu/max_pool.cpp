#include <limits>

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_kernel.h"
#include "ops/cpu/pool_windows.h"

namespace braid::cpu {

namespace {

/// Places of the pixels of a block in their window, or of one pixel in the windows of a block.
struct Places {
  std::int64_t first, row_step, column_step;
  std::int32_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::int32_t>(first + i * row_step + j * column_step);
  }
  Places from(std::int64_t row, std::int64_t column) const { return {at(row, column), row_step, column_step}; }
};

/// best = the larger of it and a block of pixels, and its place along with it.
template <int kRows, int kColumns, class T>
BRAID_TARGET_CLONES void take_maximum(std::int64_t channels, std::int64_t row_pitch, const T* x, Places places,
                                      T* __restrict best, std::uint8_t* __restrict best_places) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    T value = best[c];
    std::int32_t place = best_places[c];
#pragma GCC unroll 3
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kColumns; ++j) {
        const T candidate = x[i * row_pitch + j * channels + c];
        const bool larger = arithmetic::Larger<T>{}(candidate, value);
        value = larger ? candidate : value;
        place = larger ? places.at(i, j) : place;
      }
    }
    best[c] = value;
    best_places[c] = static_cast<std::uint8_t>(place);
  }
}

/// dx += dy where the maximum of the window was this very input, over a block of windows.
template <int kRows, int kColumns, class T>
BRAID_TARGET_CLONES void add_where(std::int64_t channels, std::int64_t row_pitch, const T* dy,
                                   const std::uint8_t* maxima, Places places, T* __restrict dx) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    T sum = dx[c];
#pragma GCC unroll 3
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kColumns; ++j) {
        const std::int64_t e = i * row_pitch + j * channels + c;
        const T gradient = dy[e];
        const bool here = maxima[e] == static_cast<std::uint8_t>(places.at(i, j));
        sum += here ? gradient : T(0);
      }
    }
    dx[c] = sum;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const PoolOptions& options = static_cast<const ops::MaxPool2d&>(spec.op).options();
    const Geometry<WindowAxis> g = windows(options, spec.inputs[0].shape, spec.outputs[0].shape);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      std::uint8_t* maxima = at<std::uint8_t>(outputs, 1);
      const std::int64_t pitch = g.w.input * g.channels;
      parallel_for_rows(width, g.images, g.h.output, g.w.output * g.channels, [=](auto image, auto p, auto number) {
        const Range rows = g.h.inside(p);
        for (std::int64_t q = 0; q < g.w.output; ++q) {
          const Range columns = g.w.inside(q);
          const T* corner = x + (image * g.h.input + rows.begin) * pitch + columns.begin * g.channels;
          const Places places{(rows.begin - g.h.start(p)) * g.w.window + columns.begin - g.w.start(q), g.w.window, 1};
          T* const best = y + (number * g.w.output + q) * g.channels;
          std::uint8_t* const best_places = maxima + (number * g.w.output + q) * g.channels;
          std::fill_n(best, g.channels, -std::numeric_limits<T>::infinity());
          std::fill_n(best_places, g.channels, static_cast<std::uint8_t>(places.first));
          for_blocks(rows.size(), columns.size(), [&]<int kRows, int kColumns>(std::int64_t row, std::int64_t column) {
            take_maximum<kRows, kColumns>(g.channels, pitch, corner + row * pitch + column * g.channels,
                                          places.from(row, column), best, best_places);
          });
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const PoolOptions& options = static_cast<const ops::MaxPool2dBackward&>(spec.op).options();
    const Geometry<WindowAxis> g = windows(options, spec.outputs[0].shape, spec.inputs[0].shape);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      const std::uint8_t* maxima = at<const std::uint8_t>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      const std::int64_t pitch = g.w.output * g.channels;
      parallel_for_rows(width, g.images, g.h.input, g.w.input * g.channels, [=](auto image, auto row, auto number) {
        const Range p = g.h.outputs_over(row);
        for (std::int64_t column = 0; column < g.w.input; ++column) {
          const Range q = g.w.outputs_over(column);
          const std::int64_t corner = (image * g.h.output + p.begin) * pitch + q.begin * g.channels;
          const Places places{(row - g.h.start(p.begin)) * g.w.window + column - g.w.start(q.begin),
                              -g.h.stride * g.w.window, -g.w.stride};
          T* const sum = dx + (number * g.w.input + column) * g.channels;
          std::fill_n(sum, g.channels, T(0));
          for_blocks(p.size(), q.size(), [&]<int kRows, int kColumns>(std::int64_t i, std::int64_t j) {
            const std::int64_t first = corner + i * pitch + j * g.channels;
            add_where<kRows, kColumns>(g.channels, pitch, dy + first, maxima + first, places.from(i, j), sum);
          });
        }
      });
    });
  });
}

}  // namespace braid::cpu
