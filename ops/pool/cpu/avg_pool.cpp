#include "ops/kernels/function_kernel.h"
#include "ops/pool/cpu/pool_windows.h"

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

/// The pixels that are folded into those of a result, along one axis.
struct FoldAxis {
  std::int64_t source;                ///< extent of what is folded
  std::vector<Range> from;            ///< pixels that are folded into each one of the result
  std::vector<std::int64_t> windows;  ///< sizes of the pooling's windows, by which sums are divided
};

enum class Direction { forward, backward };

template <class Axis>
FoldAxis fold_axis(Direction direction, const Axis& axis, bool padded = false) {
  FoldAxis fold{direction == Direction::forward ? axis.input : axis.output, {}, {}};
  for (std::int64_t out = 0; out < axis.output; ++out) {
    const Range inside = axis.inside(out);
    fold.windows.push_back(inside.size());
    if constexpr (std::is_same_v<Axis, WindowAxis>) {
      if (padded) fold.windows.back() = axis.padded_size(out);
    }
    if (direction == Direction::forward) fold.from.push_back(inside);
  }
  if (direction == Direction::backward) {
    for (std::int64_t in = 0; in < axis.input; ++in) fold.from.push_back(axis.outputs_over(in));
  }
  return fold;
}

/// The mean over each window, or its gradient.
template <Direction kDirection>
Implementations average(const KernelSpec& spec, const FoldAxis& h, const FoldAxis& w) {
  const Shape &x_shape = spec.inputs[0].shape, &y_shape = spec.outputs[0].shape;
  return float_kernel(spec, [=, images = x_shape[0], channels = x_shape[3], height = y_shape[1], row_size = y_shape[2],
                             width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* x = at<const T>(inputs, 0);
    T* y = at<T>(outputs, 0);
    const std::int64_t pitch = w.source * channels;
    const auto fold = [=, source = h.source, h_from = h.from.data(), w_from = w.from.data(),
                       h_windows = h.windows.data(),
                       w_windows = w.windows.data()](std::int64_t image, std::int64_t row, std::int64_t number) {
      const auto weight = [=](std::int64_t p, std::int64_t q) {
        return T(1) / static_cast<T>(h_windows[p] * w_windows[q]);
      };
      const Range rows = h_from[row];
      for (std::int64_t column = 0; column < row_size; ++column) {
        const Range columns = w_from[column];
        const T* corner = x + (image * source + rows.begin) * pitch + columns.begin * channels;
        T weights[9];
        if (kDirection == Direction::forward) std::fill_n(weights, 9, weight(row, column));
        T* const sum = y + (number * row_size + column) * channels;
        std::fill_n(sum, channels, T(0));
        for_blocks(rows.size(), columns.size(), [&]<int kRows, int kColumns>(std::int64_t i, std::int64_t j) {
          for (int k = 0; kDirection == Direction::backward && k < kRows * kColumns; ++k) {
            weights[k] = weight(rows.begin + i + k / kColumns, columns.begin + j + k % kColumns);
          }
          add_weighted<kRows, kColumns>(channels, pitch, corner + i * pitch + j * channels, weights, sum);
        });
      }
    };
    parallel_for_rows(width, images, height, row_size * channels, fold);
  });
}

template <Direction kDirection, class Axis>
Implementations average(const KernelSpec& spec, const Geometry<Axis>& g, bool padded = false) {
  return average<kDirection>(spec, fold_axis(kDirection, g.h, padded), fold_axis(kDirection, g.w, padded));
}

}  // namespace

Implementations make_avg_pool2d(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2d>();
  return average<Direction::forward>(spec, windows(options, spec.inputs[0].shape, spec.outputs[0].shape),
                                     options.count_include_pad);
}

Implementations make_avg_pool2d_backward(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::AvgPool2dBackward>().options;
  return average<Direction::backward>(spec, windows(options, spec.outputs[0].shape, spec.inputs[0].shape),
                                      options.count_include_pad);
}

Implementations make_adaptive_avg_pool2d(const KernelSpec& spec) {
  return average<Direction::forward>(spec, adaptive_windows(spec.inputs[0].shape, spec.outputs[0].shape));
}

Implementations make_adaptive_avg_pool2d_backward(const KernelSpec& spec) {
  return average<Direction::backward>(spec, adaptive_windows(spec.outputs[0].shape, spec.inputs[0].shape));
}

Implementations make_global_avg_pool(const KernelSpec& spec) {
  const Shape& x_shape = spec.inputs[0].shape;
  const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
  return float_kernel(spec, [=, width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* x = at<const T>(inputs, 0);
    T* y = at<T>(outputs, 0);
    parallel_for_rows(width, images, 1, pixels * channels, [=](auto image, auto, auto) {
      mean_of_rows(pixels, channels, x + image * pixels * channels, y + image * channels);
    });
  });
}

Implementations make_global_avg_pool_backward(const KernelSpec& spec) {
  const Shape& x_shape = spec.outputs[0].shape;
  const std::int64_t images = x_shape[0], pixels = x_shape[1] * x_shape[2], channels = x_shape[3];
  return float_kernel(spec, [=, width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* dy = at<const T>(inputs, 0);
    T* dx = at<T>(outputs, 0);
    const T scale = T(1) / static_cast<T>(pixels);
    parallel_for_rows(width, images, 1, pixels * channels, [=](auto image, auto, auto) {
      const T* from = dy + image * channels;
      for_each_in_rows(image * pixels * channels, pixels, channels,
                       [=](std::int64_t e, std::int64_t c) { dx[e] = scale * from[c]; });
    });
  });
}

}  // namespace braid::cpu
