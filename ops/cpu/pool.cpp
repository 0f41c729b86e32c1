#include "ops/pool.h"

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_kernel.h"
#include "ops/cpu/loops.h"

namespace braid::cpu {

namespace {

/// First and last-plus-one index of something.
struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

/// Pooling along one axis.
struct Axis {
  std::int64_t input;
  std::int64_t output;
  std::int64_t window;
  std::int64_t stride;
  std::int64_t padding;

  /// Where the window of an output begins; negative inside the padding.
  std::int64_t start(std::int64_t out) const { return out * stride - padding; }
  /// The part of the window that lies in the image.
  Range inside(std::int64_t out) const {
    return {std::max<std::int64_t>(0, start(out)), std::min(input, start(out) + window)};
  }
  /// Length of the window within image and padding, as PyTorch counts it.
  std::int64_t padded_size(std::int64_t out) const {
    return std::min(input + padding, start(out) + window) - start(out);
  }
  /// Outputs whose windows hold an input.
  Range outputs_over(std::int64_t in) const {
    const std::int64_t reach = in + padding;
    return {reach < window ? 0 : (reach - window) / stride + 1, std::min(output, reach / stride + 1)};
  }
};

/// Adaptive pooling along one axis: the two ranges are each other's inverse, with input and output exchanged.
struct AdaptiveAxis {
  std::int64_t input;
  std::int64_t output;

  Range inside(std::int64_t out) const { return {out * input / output, ((out + 1) * input + output - 1) / output}; }
  Range outputs_over(std::int64_t in) const { return {in * output / input, ((in + 1) * output + input - 1) / input}; }
};

template <class AnyAxis>
struct Geometry {
  std::int64_t images, channels;
  AnyAxis h, w;
  bool count_padding = false;

  std::int64_t window_size(std::int64_t p, std::int64_t q) const {
    if constexpr (requires { h.padded_size(p); }) {
      if (count_padding) return h.padded_size(p) * w.padded_size(q);
    }
    return h.inside(p).size() * w.inside(q).size();
  }
  /// Rows of output or input that make a worthwhile piece.
  std::int64_t grain(std::int64_t columns) const {
    return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, columns * channels));
  }
};

Geometry<Axis> windows(const PoolOptions& o, const Shape& x, const Shape& y) {
  return {x[0],
          x[3],
          {x[1], y[1], o.window.h, o.stride.h, o.padding.h},
          {x[2], y[2], o.window.w, o.stride.w, o.padding.w},
          o.count_include_pad};
}

Geometry<AdaptiveAxis> adaptive_windows(const Shape& x, const Shape& y) {
  return {x[0], x[3], {x[1], y[1]}, {x[2], y[2]}};
}

/// Maximum and its place over one window, given its first element; channels in blocks that stay in registers and L1.
template <class T>
BRAID_TARGET_CLONES void max_of_window(std::int64_t channels, std::int64_t row_pitch, Range rows, Range columns,
                                       std::int64_t first_row, std::int64_t first_column, std::int64_t window_width,
                                       const T* image, T* y, std::uint8_t* places) {
  constexpr std::int64_t kBlock = 64;
  T best[kBlock];
  std::int32_t place[kBlock];
  for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, channels - begin);
    const T* first = image + rows.begin * row_pitch + columns.begin * channels + begin;
    const auto first_place =
        static_cast<std::int32_t>((rows.begin - first_row) * window_width + columns.begin - first_column);
    for (std::int64_t c = 0; c < size; ++c) {
      best[c] = first[c];
      place[c] = first_place;
    }
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const T* x = image + row * row_pitch + column * channels + begin;
        const auto here = static_cast<std::int32_t>((row - first_row) * window_width + column - first_column);
#pragma omp simd
        for (std::int64_t c = 0; c < size; ++c) {
          const bool larger = arithmetic::Larger<T>{}(x[c], best[c]);
          best[c] = larger ? x[c] : best[c];
          place[c] = larger ? here : place[c];
        }
      }
    }
    for (std::int64_t c = 0; c < size; ++c) {
      y[begin + c] = best[c];
      places[begin + c] = static_cast<std::uint8_t>(place[c]);
    }
  }
}

/// dx += dy where the maximum of the window was this very input.
template <class T>
BRAID_TARGET_CLONES void add_where(std::int64_t channels, const T* dy, const std::uint8_t* places, std::uint8_t place,
                                   T* __restrict dx) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) dx[c] += places[c] == place ? dy[c] : T(0);
}

template <class T>
BRAID_TARGET_CLONES void add_scaled(std::int64_t channels, const T* x, T scale, T* __restrict y) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] += scale * x[c];
}

/// Mean over `rows` rows [C], in blocks of channels; T accumulates over at most kRows rows, double from there on.
template <class T>
BRAID_TARGET_CLONES void mean_of_rows(std::int64_t rows, std::int64_t channels, const T* x, T* y) {
  constexpr std::int64_t kBlock = 64, kRows = 256;
  T sum[kBlock];
  double total[kBlock];
  for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, channels - begin);
    std::fill_n(total, size, 0.0);
    for (std::int64_t first = 0; first < rows; first += kRows) {
      std::fill_n(sum, size, T(0));
      for (std::int64_t row = first; row < std::min(rows, first + kRows); ++row) {
        const T* from = x + row * channels + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < size; ++c) sum[c] += from[c];
      }
      for (std::int64_t c = 0; c < size; ++c) total[c] += static_cast<double>(sum[c]);
    }
    for (std::int64_t c = 0; c < size; ++c) y[begin + c] = static_cast<T>(total[c] / static_cast<double>(rows));
  }
}

/// Calls body(image, row, column, pixel) for every pixel of [images,rows,columns]; pixels are numbered in that order.
template <class AnyAxis, class Body>
void parallel_for_pixels(int width, const Geometry<AnyAxis>& g, std::int64_t rows, std::int64_t columns,
                         const Body& body) {
  parallel_for(width, g.images * rows, g.grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t column = 0; column < columns; ++column) body(i / rows, i % rows, column, i * columns + column);
    }
  });
}

/// Calls add(output pixel, p, q) for every window that holds the input (row, column) of the image.
template <class AnyAxis, class Add>
void for_windows_over(const Geometry<AnyAxis>& g, std::int64_t image, std::int64_t row, std::int64_t column,
                      const Add& add) {
  const Range rows = g.h.outputs_over(row), columns = g.w.outputs_over(column);
  for (std::int64_t p = rows.begin; p < rows.end; ++p) {
    for (std::int64_t q = columns.begin; q < columns.end; ++q) add((image * g.h.output + p) * g.w.output + q, p, q);
  }
}

/// The mean over each window.
template <class AnyAxis>
std::unique_ptr<Kernel> average(const KernelSpec& spec, const Geometry<AnyAxis>& g) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      parallel_for_pixels(width, g, g.h.output, g.w.output, [=](auto image, auto p, auto q, auto pixel) {
        const Range rows = g.h.inside(p), columns = g.w.inside(q);
        const T scale = T(1) / static_cast<T>(g.window_size(p, q));
        T* const mean = y + pixel * g.channels;
        std::fill_n(mean, g.channels, T(0));
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            add_scaled(g.channels, x + ((image * g.h.input + row) * g.w.input + column) * g.channels, scale, mean);
          }
        }
      });
    });
  });
}

template <class AnyAxis>
std::unique_ptr<Kernel> average_backward(const KernelSpec& spec, const Geometry<AnyAxis>& g) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      T* dx = at<T>(outputs, 0);
      parallel_for_pixels(width, g, g.h.input, g.w.input, [=](auto image, auto row, auto column, auto pixel) {
        T* const here = dx + pixel * g.channels;
        std::fill_n(here, g.channels, T(0));
        for_windows_over(g, image, row, column, [=](std::int64_t output, std::int64_t p, std::int64_t q) {
          add_scaled(g.channels, dy + output * g.channels, T(1) / static_cast<T>(g.window_size(p, q)), here);
        });
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Geometry g =
        windows(static_cast<const ops::MaxPool2d&>(spec.op).options(), spec.inputs[0].shape, spec.outputs[0].shape);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      std::uint8_t* places = at<std::uint8_t>(outputs, 1);
      const std::int64_t pitch = g.w.input * g.channels;
      parallel_for_pixels(width, g, g.h.output, g.w.output, [=](auto image, auto p, auto q, auto pixel) {
        max_of_window(g.channels, pitch, g.h.inside(p), g.w.inside(q), g.h.start(p), g.w.start(q), g.w.window,
                      x + image * g.h.input * pitch, y + pixel * g.channels, places + pixel * g.channels);
      });
    });
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Geometry g = windows(static_cast<const ops::MaxPool2dBackward&>(spec.op).options(), spec.outputs[0].shape,
                               spec.inputs[0].shape);
    return function_kernel([g, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      const std::uint8_t* places = at<const std::uint8_t>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      parallel_for_pixels(width, g, g.h.input, g.w.input, [=](auto image, auto row, auto column, auto pixel) {
        T* const here = dx + pixel * g.channels;
        std::fill_n(here, g.channels, T(0));
        for_windows_over(g, image, row, column, [=](std::int64_t output, std::int64_t p, std::int64_t q) {
          const std::int64_t place = (row - g.h.start(p)) * g.w.window + column - g.w.start(q);
          add_where(g.channels, dy + output * g.channels, places + output * g.channels,
                    static_cast<std::uint8_t>(place), here);
        });
      });
    });
  });
}

std::unique_ptr<Kernel> make_avg_pool2d(const KernelSpec& spec) {
  const PoolOptions& options = static_cast<const ops::AvgPool2d&>(spec.op).options();
  return average(spec, windows(options, spec.inputs[0].shape, spec.outputs[0].shape));
}

std::unique_ptr<Kernel> make_avg_pool2d_backward(const KernelSpec& spec) {
  const PoolOptions& options = static_cast<const ops::AvgPool2dBackward&>(spec.op).options();
  return average_backward(spec, windows(options, spec.outputs[0].shape, spec.inputs[0].shape));
}

std::unique_ptr<Kernel> make_adaptive_avg_pool2d(const KernelSpec& spec) {
  return average(spec, adaptive_windows(spec.inputs[0].shape, spec.outputs[0].shape));
}

std::unique_ptr<Kernel> make_adaptive_avg_pool2d_backward(const KernelSpec& spec) {
  return average_backward(spec, adaptive_windows(spec.outputs[0].shape, spec.inputs[0].shape));
}

std::unique_ptr<Kernel> make_global_avg_pool(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& x_shape = spec.inputs[0].shape;
    const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      const std::int64_t grain =
          std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, pixels * channels));
      parallel_for(width, images, grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          mean_of_rows(pixels, channels, x + i * pixels * channels, y + i * channels);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_global_avg_pool_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& x_shape = spec.outputs[0].shape;
    const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      T* dx = at<T>(outputs, 0);
      const T scale = T(1) / static_cast<T>(pixels);
      const std::int64_t grain =
          std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, pixels * channels));
      parallel_for(width, images, grain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const T* from = dy + i * channels;
          for_each_in_rows(i * pixels * channels, pixels, channels,
                           [=](std::int64_t e, std::int64_t c) { dx[e] = scale * from[c]; });
        }
      });
    });
  });
}

}  // namespace braid::cpu
