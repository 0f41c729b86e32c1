#include "ops/cpu/pool_windows.h"
#include "ops/function_kernel.h"

namespace braid::cpu {

namespace {

/// y += Σ weights[i][j]·x over a block of pixels.
template <int kRows, int kColumns, class T>
BRAID_TARGET_CLONES void add_weighted(std::int64_t channels, std::int64_t row_pitch, const T* x, const T* weights,
                                      T* __restrict y) {
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    T sum = y[c];
#pragma GCC unroll 3
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kColumns; ++j) sum += weights[i * kColumns + j] * x[i * row_pitch + j * channels + c];
    }
    y[c] = sum;
  }
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

/// The number of elements in a window's mean.
struct InsideSize {
  template <class Axis>
  std::int64_t operator()(const Geometry<Axis>& g, std::int64_t p, std::int64_t q) const {
    return g.h.inside(p).size() * g.w.inside(q).size();
  }
};
struct PaddedSize {
  std::int64_t operator()(const Geometry<WindowAxis>& g, std::int64_t p, std::int64_t q) const {
    return g.h.padded_size(p) * g.w.padded_size(q);
  }
};

/// The mean over each window.
template <class Axis, class Size>
std::unique_ptr<Kernel> average(const KernelSpec& spec, const Geometry<Axis>& g, Size window_size) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      const std::int64_t pitch = g.w.input * g.channels;
      parallel_for_rows(width, g.images, g.h.output, g.w.output * g.channels, [=](auto image, auto p, auto number) {
        const Range rows = g.h.inside(p);
        for (std::int64_t q = 0; q < g.w.output; ++q) {
          const Range columns = g.w.inside(q);
          const T* corner = x + (image * g.h.input + rows.begin) * pitch + columns.begin * g.channels;
          T weights[9];
          std::fill_n(weights, 9, T(1) / static_cast<T>(window_size(g, p, q)));
          T* const mean = y + (number * g.w.output + q) * g.channels;
          std::fill_n(mean, g.channels, T(0));
          for_blocks(rows.size(), columns.size(), [&]<int kRows, int kColumns>(std::int64_t row, std::int64_t column) {
            add_weighted<kRows, kColumns>(g.channels, pitch, corner + row * pitch + column * g.channels, weights, mean);
          });
        }
      });
    });
  });
}

template <class Axis, class Size>
std::unique_ptr<Kernel> average_backward(const KernelSpec& spec, const Geometry<Axis>& g, Size window_size) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      T* dx = at<T>(outputs, 0);
      const std::int64_t pitch = g.w.output * g.channels;
      parallel_for_rows(width, g.images, g.h.input, g.w.input * g.channels, [=](auto image, auto row, auto number) {
        const Range p = g.h.outputs_over(row);
        for (std::int64_t column = 0; column < g.w.input; ++column) {
          const Range q = g.w.outputs_over(column);
          const T* corner = dy + (image * g.h.output + p.begin) * pitch + q.begin * g.channels;
          T* const sum = dx + (number * g.w.input + column) * g.channels;
          std::fill_n(sum, g.channels, T(0));
          for_blocks(p.size(), q.size(), [&]<int kRows, int kColumns>(std::int64_t i, std::int64_t j) {
            T weights[kRows * kColumns];
            for (int w = 0; w < kRows * kColumns; ++w) {
              weights[w] =
                  T(1) / static_cast<T>(window_size(g, p.begin + i + w / kColumns, q.begin + j + w % kColumns));
            }
            add_weighted<kRows, kColumns>(g.channels, pitch, corner + i * pitch + j * g.channels, weights, sum);
          });
        }
      });
    });
  });
}

}  // namespace

Implementations make_avg_pool2d(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2d>();
  const Geometry<WindowAxis> g = windows(options, spec.inputs[0].shape, spec.outputs[0].shape);
  return options.count_include_pad ? average(spec, g, PaddedSize{}) : average(spec, g, InsideSize{});
}

Implementations make_avg_pool2d_backward(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2dBackward>().options;
  const Geometry<WindowAxis> g = windows(options, spec.outputs[0].shape, spec.inputs[0].shape);
  return options.count_include_pad ? average_backward(spec, g, PaddedSize{}) : average_backward(spec, g, InsideSize{});
}

Implementations make_adaptive_avg_pool2d(const KernelSpec& spec) {
  return average(spec, adaptive_windows(spec.inputs[0].shape, spec.outputs[0].shape), InsideSize{});
}

Implementations make_adaptive_avg_pool2d_backward(const KernelSpec& spec) {
  return average_backward(spec, adaptive_windows(spec.outputs[0].shape, spec.inputs[0].shape), InsideSize{});
}

Implementations make_global_avg_pool(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const Shape& x_shape = spec.inputs[0].shape;
    const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      parallel_for_rows(width, images, 1, pixels * channels, [=](auto image, auto, auto) {
        mean_of_rows(pixels, channels, x + image * pixels * channels, y + image * channels);
      });
    });
  });
}

Implementations make_global_avg_pool_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const Shape& x_shape = spec.outputs[0].shape;
    const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T* dy = at<const T>(inputs, 0);
      T* dx = at<T>(outputs, 0);
      const T scale = T(1) / static_cast<T>(pixels);
      parallel_for_rows(width, images, 1, pixels * channels, [=](auto image, auto, auto) {
        const T* from = dy + image * channels;
        for_each_in_rows(image * pixels * channels, pixels, channels,
                         [=](std::int64_t e, std::int64_t c) { dx[e] = scale * from[c]; });
      });
    });
  });
}

}  // namespace braid::cpu
