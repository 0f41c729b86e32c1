#include "ops/pool/cuda/pixels.cuh"
#include "ops/pool/interpolate.h"
#include "ops/pool/resampling.h"

namespace braid::cuda {

namespace {

/// Images are few enough for offsets of 32 bits.
template <bool kBackward, int kWidth, class T>
__global__ void __launch_bounds__(kThreads)
    interpolate_kernel(const __grid_constant__ PixelGrid grid, const __grid_constant__ Resampling g, const T* from,
                       T* to) {
  const auto &h = g.h, &w = g.w;
  const int channels = static_cast<int>(g.channels);
  const auto pixel = [&](int image, const auto& extents, std::int64_t row, std::int64_t column, int channel) {
    const auto [height, width] = extents;
    return ((image * height + static_cast<int>(row)) * width + static_cast<int>(column)) * channels + channel;
  };
  struct Extents {
    int h, w;
  };
  const Extents x{static_cast<int>(h.input), static_cast<int>(w.input)};
  const Extents y{static_cast<int>(h.output), static_cast<int>(w.output)};
  if constexpr (!kBackward) {
    for_each_pixel<kWidth>(grid, [&](int image, int p, int q, int channel) {
      const auto rows = h(p), columns = w(q);
      const auto at = [&](std::int64_t row, std::int64_t column) {
        return load<kWidth>(from + pixel(image, x, row, column, channel));
      };
      auto lanes = at(rows.first, columns.first);
      if (h.mode == Interpolation::bilinear) {
        const auto b = at(rows.first, columns.last), c = at(rows.last, columns.first), d = at(rows.last, columns.last);
        const auto down = static_cast<Compute<T>>(rows.weight), right = static_cast<Compute<T>>(columns.weight);
        for_lanes<kWidth>([&](int i) {
          lanes[i] = (1 - down) * ((1 - right) * lanes[i] + right * b[i]) + down * ((1 - right) * c[i] + right * d[i]);
        });
      }
      store<kWidth>(to + pixel(image, y, p, q, channel), lanes);
    });
  } else {
    for_each_pixel<kWidth>(grid, [&](int image, int row, int column, int channel) {
      Lanes<Compute<T>, kWidth> sum = {};
      for_outputs_over(h, row, [&](std::int64_t p, double down) {
        for_outputs_over(w, column, [&](std::int64_t q, double right) {
          const auto lanes = load<kWidth>(from + pixel(image, y, p, q, channel));
          const auto weight = static_cast<Compute<T>>(down * right);
          for_lanes<kWidth>([&](int i) { sum[i] += weight * lanes[i]; });
        });
      });
      store<kWidth>(to + pixel(image, x, row, column, channel), sum);
    });
  }
}

template <bool kBackward>
std::unique_ptr<Kernel> interpolate(const KernelSpec& spec, const ops::InterpolateAttributes& options, const Shape& x,
                                    const Shape& y) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const Resampling g(options, x, y);
    return function_kernel([g, name = spec.op.name(), units = spec.info->capacity](const StreamHandles& stream,
                                                                                   auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const T* from = at<const T>(inputs, 0);
      T* to = at<T>(outputs, 0);
      const std::int64_t x_size = g.h.input * g.w.input * g.channels, y_size = g.h.output * g.w.output * g.channels;
      const std::int64_t from_size = kBackward ? y_size : x_size, to_size = kBackward ? x_size : y_size;
      const bool vectors = g.channels % kWidth == 0 && is_aligned<kWidth>(from, to);
      for_row_groups(name, g.images, std::max(x_size, y_size), [&](std::int64_t first, std::int64_t images) {
        with_width<kWidth>(vectors, [&]<int kLanes>() {
          launch(stream, stride_shape(images * to_size, kLanes, units), interpolate_kernel<kBackward, kLanes, T>,
                 PixelGrid(static_cast<int>(images), static_cast<int>(kBackward ? g.h.input : g.h.output),
                           static_cast<int>(kBackward ? g.w.input : g.w.output), static_cast<int>(g.channels) / kLanes),
                 g, from + first * from_size, to + first * to_size);
        });
      });
    });
  });
}

}  // namespace

Implementations make_interpolate(const KernelSpec& spec) {
  return interpolate<false>(spec, spec.attributes<ops::Interpolate>(), spec.inputs[0].shape, spec.outputs[0].shape);
}

Implementations make_interpolate_backward(const KernelSpec& spec) {
  return interpolate<true>(spec, spec.attributes<ops::InterpolateBackward>().options, spec.outputs[0].shape,
                           spec.inputs[0].shape);
}

}  // namespace braid::cuda
