#include "ops/loss/softmax.h"

#include "ops/elementwise/functions.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kSoftmaxColumns = 128, kSumLanes = 16;

/// The sum of f(i) for i in [0, size), in the same order for all instruction sets.
template <class F>
BRAID_TARGET_CLONES double sum_in_lanes(std::int64_t size, F f) {
  double lanes[kSumLanes] = {};
  std::int64_t i = 0;
  for (; i + kSumLanes <= size; i += kSumLanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += static_cast<double>(f(i + lane));
  }
  double sum = 0;
  for (; i < size; ++i) sum += static_cast<double>(f(i));
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// A NaN that the maximum ignores makes the sum a NaN.
template <class T>
BRAID_TARGET_CLONES T largest_of(std::int64_t size, const T* x) {
  T largest = x[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < size; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

/// Softmax of one row; y may lie on x.
template <bool kLogarithm, class T>
void softmax_row(std::int64_t size, const T* x, T* y) {
  constexpr std::int64_t kBlock = 512;
  T exponentials[kBlock];
  const T largest = largest_of(size, x);
  double sum = 0;
  for (std::int64_t first = 0; first < size; first += kBlock) {
    const std::int64_t count = std::min(kBlock, size - first);
    T* const e = kLogarithm ? exponentials : y + first;
    for_each_element(0, count, [=, from = x + first](std::int64_t i) { e[i] = functions::exp(from[i] - largest); });
    sum += sum_in_lanes(count, [=](std::int64_t i) { return e[i]; });
  }
  const T last = static_cast<T>(kLogarithm ? std::log(sum) : 1 / sum);
  for_each_element(0, size, [=](std::int64_t i) { y[i] = kLogarithm ? x[i] - largest - last : y[i] * last; });
}

/// to[c] += row[c]
template <class T>
void add_columns(std::int64_t columns, const T* row, double* to) {
  for_each_element(0, columns, [=](std::int64_t c) { to[c] += static_cast<double>(row[c]); });
}

/// The same for up to kSoftmaxColumns neighbouring columns, whose elements lie `stride` apart.
template <bool kLogarithm, class T>
void softmax_columns(std::int64_t columns, std::int64_t length, std::int64_t stride, const T* x, T* y) {
  T largest[kSoftmaxColumns], last[kSoftmaxColumns], exponentials[kSoftmaxColumns];
  double sum[kSoftmaxColumns] = {};
  std::copy_n(x, columns, largest);
  for (std::int64_t l = 1; l < length; ++l) {
    for_each_element(0, columns,
                     [row = x + l * stride, to = largest](std::int64_t c) { to[c] = row[c] > to[c] ? row[c] : to[c]; });
  }
  for (std::int64_t l = 0; l < length; ++l) {
    T* const e = kLogarithm ? exponentials : y + l * stride;
    for_each_element(0, columns, [=, row = x + l * stride, most = largest](std::int64_t c) {
      e[c] = functions::exp(row[c] - most[c]);
    });
    add_columns(columns, e, sum);
  }
  for (std::int64_t c = 0; c < columns; ++c) last[c] = static_cast<T>(kLogarithm ? std::log(sum[c]) : 1 / sum[c]);
  for (std::int64_t l = 0; l < length; ++l) {
    for_each_element(0, columns,
                     [row = x + l * stride, out = y + l * stride, most = largest, end = last](std::int64_t c) {
                       out[c] = kLogarithm ? row[c] - most[c] - end[c] : out[c] * end[c];
                     });
  }
}

template <bool kLogarithm, class T>
void softmax_backward_row(std::int64_t size, const T* dy, const T* y, T* dx) {
  const T sum = static_cast<T>(sum_in_lanes(size, [=](std::int64_t i) { return kLogarithm ? dy[i] : dy[i] * y[i]; }));
  for_each_element(
      0, size, [=](std::int64_t i) { dx[i] = kLogarithm ? dy[i] - functions::exp(y[i]) * sum : y[i] * (dy[i] - sum); });
}

template <bool kLogarithm, class T>
void softmax_backward_columns(std::int64_t columns, std::int64_t length, std::int64_t stride, const T* dy, const T* y,
                              T* dx) {
  T products[kSoftmaxColumns], total[kSoftmaxColumns];
  double sum[kSoftmaxColumns] = {};
  for (std::int64_t l = 0; l < length; ++l) {
    const T *row = dy + l * stride, *of_y = y + l * stride;
    if constexpr (!kLogarithm) {
      for_each_element(0, columns, [=, to = products](std::int64_t c) { to[c] = row[c] * of_y[c]; });
    }
    add_columns(columns, kLogarithm ? row : products, sum);
  }
  for (std::int64_t c = 0; c < columns; ++c) total[c] = static_cast<T>(sum[c]);
  for (std::int64_t l = 0; l < length; ++l) {
    for_each_element(
        0, columns, [row = dy + l * stride, of_y = y + l * stride, out = dx + l * stride, all = total](std::int64_t c) {
          out[c] = kLogarithm ? row[c] - functions::exp(of_y[c]) * all[c] : of_y[c] * (row[c] - all[c]);
        });
  }
}

/// Calls row(first element) for rows along the innermost axis, else columns(first element, count, stride).
template <class Row, class Columns>
void for_softmax(int width, const ops::SoftmaxExtents& x, const Row& row, const Columns& columns) {
  if (x.outer * x.length * x.inner == 0) return;
  const std::int64_t blocks = divide_up(x.inner, kSoftmaxColumns);
  const std::int64_t grain = grain_of(x.length * std::min(x.inner, kSoftmaxColumns), 8192);
  parallel_for(width, x.outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t column = piece % blocks * kSoftmaxColumns;
      const std::int64_t first = piece / blocks * x.length * x.inner + column;
      x.inner == 1 ? row(first) : columns(first, std::min(kSoftmaxColumns, x.inner - column), x.inner);
    }
  });
}

/// Calls make.operator()<T, kLogarithm>().
template <class Op, class Make>
Implementations make_any_softmax(const KernelSpec& spec, const Make& make) {
  return for_float_type(spec, spec.outputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    const auto& attributes = spec.attributes<Op>();
    const ops::SoftmaxExtents x(spec.outputs[0].shape, attributes.axis);
    if (attributes.logarithm) return make.template operator()<T, true>(x);
    return make.template operator()<T, false>(x);
  });
}

}  // namespace

Implementations make_softmax(const KernelSpec& spec) {
  return make_any_softmax<ops::Softmax>(spec, [&]<class T, bool kLogarithm>(const ops::SoftmaxExtents& extents) {
    return function_kernel([extents, width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      T* y = at<T>(outputs, 0);
      for_softmax(
          width, extents, [&](std::int64_t first) { softmax_row<kLogarithm>(extents.length, x + first, y + first); },
          [&](std::int64_t first, std::int64_t columns, std::int64_t stride) {
            softmax_columns<kLogarithm>(columns, extents.length, stride, x + first, y + first);
          });
    });
  });
}

Implementations make_softmax_backward(const KernelSpec& spec) {
  return make_any_softmax<ops::SoftmaxBackward>(spec, [&]<class T, bool kLogarithm>(
                                                          const ops::SoftmaxExtents& extents) {
    return function_kernel([extents, width = spec.width](auto inputs, auto outputs) {
      const T *dy = at<const T>(inputs, 0), *y = at<const T>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      for_softmax(
          width, extents,
          [&](std::int64_t first) {
            softmax_backward_row<kLogarithm>(extents.length, dy + first, y + first, dx + first);
          },
          [&](std::int64_t first, std::int64_t columns, std::int64_t stride) {
            softmax_backward_columns<kLogarithm>(columns, extents.length, stride, dy + first, y + first, dx + first);
          });
    });
  });
}

}  // namespace braid::cpu
