#include "ops/norm/group_norm.h"

#include <cmath>

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"
#include "ops/norm/arithmetic.h"

namespace braid::cpu {

namespace {

/// x [images, pixels, channels] with channels in groups of `size`. A piece of parallel work is a number of images,
/// which follows from the shape alone.
struct Groups {
  std::int64_t images, pixels, channels, groups, size, grain;

  Groups(const Shape& x, const Shape& statistics)
      : images(x[0]), pixels(x[1]), channels(x[2]), groups(statistics[1]), size(channels / groups) {
    constexpr std::int64_t kMostPieces = 64;
    grain = std::max(grain_of(pixels * channels, 2 * kElementGrain), divide_up(images, kMostPieces));
  }
  std::int64_t pieces() const { return divide_up(images, grain); }
  double elements() const { return static_cast<double>(pixels * size); }
};

/// The sum of term(i).
template <class Term>
BRAID_TARGET_CLONES double sum_of(std::int64_t size, Term term) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += term(i);
  return sum;
}

/// Means of an image's channels, and the sums of squared distances from them.
template <class T>
BRAID_TARGET_CLONES void channel_moments(const Groups& g, const T* x, double* __restrict means,
                                         double* __restrict squares) {
  std::fill_n(means, g.channels, 0.0);
  std::fill_n(squares, g.channels, 0.0);
  for (std::int64_t pixel = 1; pixel < g.pixels; ++pixel) {
    const T* row = x + pixel * g.channels;
#pragma omp simd
    for (std::int64_t c = 0; c < g.channels; ++c) {
      const double distance = static_cast<double>(row[c]) - static_cast<double>(x[c]);  // small even if x is not
      means[c] += distance;
      squares[c] += distance * distance;
    }
  }
  const double scale = 1 / static_cast<double>(g.pixels);
#pragma omp simd
  for (std::int64_t c = 0; c < g.channels; ++c) {
    squares[c] -= scale * means[c] * means[c];
    means[c] = static_cast<double>(x[c]) + scale * means[c];
  }
}

/// Sums over an image's pixels of dy and of dy·(x − mean).
template <class T>
BRAID_TARGET_CLONES void channel_gradients(const Groups& g, const T* dy, const T* x, const T* means,
                                           double* __restrict sums, double* __restrict products) {
  std::fill_n(sums, g.channels, 0.0);
  std::fill_n(products, g.channels, 0.0);
  for (std::int64_t first = 0; first < g.pixels * g.channels; first += g.channels) {
#pragma omp simd
    for (std::int64_t c = 0; c < g.channels; ++c) {
      const double gradient = static_cast<double>(dy[first + c]);
      sums[c] += gradient;
      products[c] += gradient * static_cast<double>(x[first + c] - means[c]);
    }
  }
}

}  // namespace

Implementations make_group_norm(const KernelSpec& spec) {
  const Groups g(spec.inputs[0].shape, spec.outputs[1].shape);
  const double epsilon = spec.attributes<ops::GroupNorm>().epsilon;
  const std::int64_t scratch = 4 * g.channels;  // doubles per thread
  const std::size_t bytes = static_cast<std::size_t>(spec.width * scratch) * sizeof(double);
  return float_kernel(spec, bytes, [=, width = spec.width]<class T>(auto inputs, auto outputs, void* workspace) {
    const T *scale = at<const T>(inputs, 1), *shift = at<const T>(inputs, 2);
    parallel_for(width, g.images, g.grain, [&](std::int64_t begin, std::int64_t end, int member) {
      double* const means = static_cast<double*>(workspace) + member * scratch;
      double* const squares = means + g.channels;
      T* const mean = reinterpret_cast<T*>(squares + g.channels);  // per channel, like its factor
      T* const factor = mean + g.channels;
      for (std::int64_t image = begin; image < end; ++image) {
        const std::int64_t first = image * g.pixels * g.channels;
        const T* x = at<const T>(inputs, 0) + first;
        channel_moments(g, x, means, squares);
        for (std::int64_t group = 0; group < g.groups; ++group) {
          const double *of = means + group * g.size, *around = squares + group * g.size;
          const double average = sum_of(g.size, [=](std::int64_t i) { return of[i]; }) / static_cast<double>(g.size);
          const double spread = sum_of(g.size, [=, n = static_cast<double>(g.pixels)](std::int64_t i) {
            return around[i] + n * (of[i] - average) * (of[i] - average);
          });
          const T inverse = static_cast<T>(1 / std::sqrt(std::max(spread, 0.0) / g.elements() + epsilon));
          at<T>(outputs, 1)[image * g.groups + group] = static_cast<T>(average);
          at<T>(outputs, 2)[image * g.groups + group] = inverse;
          for (std::int64_t c = group * g.size; c < (group + 1) * g.size; ++c) {
            mean[c] = static_cast<T>(average);
            factor[c] = inverse * scale[c];
          }
        }
        for_each_in_rows(0, g.pixels, g.channels, [=, y = at<T>(outputs, 0) + first](std::int64_t e, std::int64_t c) {
          y[e] = arithmetic::Normalize<T>{}(x[e], mean[c], factor[c], shift[c]);
        });
      }
    });
  });
}

Implementations make_group_norm_backward(const KernelSpec& spec) {
  const Groups g(spec.inputs[0].shape, spec.inputs[3].shape);
  const std::int64_t scratch = 6 * g.channels;  // doubles per thread
  const std::size_t bytes =
      static_cast<std::size_t>(spec.width * scratch + g.pieces() * 2 * g.channels) * sizeof(double);
  return float_kernel(spec, bytes, [=, width = spec.width]<class T>(auto inputs, auto outputs, void* workspace) {
    const T *scale = at<const T>(inputs, 2), *means = at<const T>(inputs, 3), *inverses = at<const T>(inputs, 4);
    double* const totals = static_cast<double*>(workspace) + width * scratch;  // [pieces, {dβ, dγ}, C]
    parallel_for(width, g.images, g.grain, [&](std::int64_t begin, std::int64_t end, int member) {
      double* const sums = static_cast<double*>(workspace) + member * scratch;
      double *const products = sums + g.channels, *const total = totals + begin / g.grain * 2 * g.channels;
      // Per-channel terms of the gradient of x.
      T* const mean = reinterpret_cast<T*>(products + g.channels);
      T *const inverse = mean + g.channels, *const offset = inverse + g.channels, *const slope = offset + g.channels;
      std::fill_n(total, 2 * g.channels, 0.0);
      for (std::int64_t image = begin; image < end; ++image) {
        const std::int64_t first = image * g.pixels * g.channels;
        const T *dy = at<const T>(inputs, 0) + first, *x = at<const T>(inputs, 1) + first;
        for (std::int64_t group = 0; group < g.groups; ++group) {
          std::fill_n(mean + group * g.size, g.size, means[image * g.groups + group]);
        }
        channel_gradients(g, dy, x, mean, sums, products);
        for (std::int64_t group = 0; group < g.groups; ++group) {
          const std::int64_t start = group * g.size;
          const auto weighted = [=](const double* of) {
            return sum_of(g.size,
                          [=](std::int64_t i) { return of[start + i] * static_cast<double>(scale[start + i]); });
          };
          const double root = static_cast<double>(inverses[image * g.groups + group]);
          const T average = static_cast<T>(weighted(sums) / g.elements());
          const T along = static_cast<T>(root * root * weighted(products) / g.elements());
          std::fill_n(inverse + start, g.size, static_cast<T>(root));
          std::fill_n(offset + start, g.size, average);
          std::fill_n(slope + start, g.size, along);
          add_scaled(g.size, 1.0, sums + start, total + start);
          add_scaled(g.size, root, products + start, total + g.channels + start);
        }
        for_each_in_rows(0, g.pixels, g.channels, [=, dx = at<T>(outputs, 0) + first](std::int64_t e, std::int64_t c) {
          dx[e] = arithmetic::NormalizeGradient<T>{}(scale[c] * dy[e], x[e], mean[c], inverse[c], offset[c], slope[c]);
        });
      }
    });
    for (std::int64_t c = 0; c < g.channels; ++c) {
      double shift_sum = 0, scale_sum = 0;
      for (std::int64_t piece = 0; piece < g.pieces(); ++piece) {
        shift_sum += totals[piece * 2 * g.channels + c];
        scale_sum += totals[(piece * 2 + 1) * g.channels + c];
      }
      at<T>(outputs, 1)[c] = static_cast<T>(scale_sum);
      at<T>(outputs, 2)[c] = static_cast<T>(shift_sum);
    }
  });
}

}  // namespace braid::cpu
