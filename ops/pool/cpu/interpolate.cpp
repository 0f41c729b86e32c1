#include "ops/pool/interpolate.h"

#include "ops/kernels/function_kernel.h"
#include "ops/pool/cpu/pool_windows.h"
#include "ops/pool/resampling.h"

namespace braid::cpu {

namespace {

/// One pixel between four others, weighted along both axes.
template <class T>
BRAID_TARGET_CLONES void blend_pixels(std::int64_t channels, T down, T right, const T* a, const T* b, const T* c,
                                      const T* d, T* __restrict y) {
#pragma omp simd
  for (std::int64_t i = 0; i < channels; ++i) {
    y[i] = (1 - down) * ((1 - right) * a[i] + right * b[i]) + down * ((1 - right) * c[i] + right * d[i]);
  }
}

}  // namespace

Implementations make_interpolate(const KernelSpec& spec) {
  const ops::InterpolateAttributes& options = spec.attributes<ops::Interpolate>();
  const Resampling g(options, spec.inputs[0].shape, spec.outputs[0].shape);
  std::vector<PixelPair> columns;
  for (std::int64_t q = 0; q < g.w.output; ++q) columns.push_back(g.w(q));
  return float_kernel(spec, [g, columns, width = spec.width]<class T>(auto inputs, auto outputs) {
    parallel_for_rows(width, g.images, g.h.output, g.w.output * g.channels, [&](auto image, auto p, auto number) {
      const PixelPair rows = g.h(p);
      const T* const x = at<const T>(inputs, 0) + image * g.h.input * g.w.input * g.channels;
      const T *upper = x + rows.first * g.w.input * g.channels, *lower = x + rows.last * g.w.input * g.channels;
      T* y = at<T>(outputs, 0) + number * g.w.output * g.channels;
      for (const auto& [first, last, weight] : columns) {
        const std::int64_t left = first * g.channels, right = last * g.channels;
        if (g.h.mode == Interpolation::nearest) {
          std::copy_n(upper + left, g.channels, y);
        } else {
          blend_pixels(g.channels, static_cast<T>(rows.weight), static_cast<T>(weight), upper + left, upper + right,
                       lower + left, lower + right, y);
        }
        y += g.channels;
      }
    });
  });
}

Implementations make_interpolate_backward(const KernelSpec& spec) {
  const ops::InterpolateAttributes& options = spec.attributes<ops::InterpolateBackward>().options;
  const Resampling g(options, spec.outputs[0].shape, spec.inputs[0].shape);
  return float_kernel(spec, [g, width = spec.width]<class T>(auto inputs, auto outputs) {
    parallel_for_rows(width, g.images, g.h.input, g.w.input * g.channels, [&](auto image, auto row, auto number) {
      T* const dx = at<T>(outputs, 0) + number * g.w.input * g.channels;
      std::fill_n(dx, g.w.input * g.channels, T(0));
      for_outputs_over(g.h, row, [&](std::int64_t p, double down) {
        const T* const dy = at<const T>(inputs, 0) + (image * g.h.output + p) * g.w.output * g.channels;
        for (std::int64_t column = 0; column < g.w.input; ++column) {
          for_outputs_over(g.w, column, [&](std::int64_t q, double right) {
            add_scaled(g.channels, static_cast<T>(down * right), dy + q * g.channels, dx + column * g.channels);
          });
        }
      });
    });
  });
}

}  // namespace braid::cpu
