#pragma once
// The input pixels and weights that make an output pixel of an upsampling, along one axis.

#include "core/base/random.h"
#include "ops/pool/interpolate.h"

namespace braid {

/// (1 − weight)·x[first] + weight·x[last]
struct PixelPair {
  std::int64_t first, last;
  double weight;

  /// The weight of an input pixel; 0 unless it is one of the two.
  BRAID_HOST_DEVICE double weight_of(std::int64_t in) const {
    return (in == first ? 1 - weight : 0.0) + (in == last ? weight : 0.0);
  }
};

/// Positions are computed in f64, because weights are their fractional parts; but for the nearest pixel in f32, as in
/// PyTorch.
struct ResampledAxis {
  std::int64_t input;
  std::int64_t output;
  double step;
  Interpolation mode;
  bool align_corners;

  /// Where in the input the centre of an output pixel is; pixel 0 of the input is at 0.
  BRAID_HOST_DEVICE double place(std::int64_t out) const {
    return align_corners ? step * static_cast<double>(out) : step * (static_cast<double>(out) + 0.5) - 0.5;
  }

  BRAID_HOST_DEVICE PixelPair operator()(std::int64_t out) const {
    if (mode == Interpolation::nearest || mode == Interpolation::nearest_exact) {
      const float centre = static_cast<float>(out) + (mode == Interpolation::nearest ? 0.0f : 0.5f);
      const auto nearest = static_cast<std::int64_t>(centre * static_cast<float>(step));
      const std::int64_t in = nearest < input ? nearest : input - 1;
      return {in, in, 0};
    }
    const double centre = place(out), inside = centre < 0 ? 0 : centre;
    std::int64_t first = static_cast<std::int64_t>(inside);
    if (first >= input) first = input - 1;
    const bool at_end = first == input - 1;
    return {first, at_end ? first : first + 1, at_end ? 0.0 : inside - static_cast<double>(first)};
  }

  /// The first output that uses the input pixel or a later one.
  BRAID_HOST_DEVICE std::int64_t begin_over(std::int64_t in) const {
    if (step == 0) return 0;
    const double least = (static_cast<double>(in) - 1 - place(0)) / step - 1;
    std::int64_t out = least < 0 ? 0 : static_cast<std::int64_t>(least);
    while (out < output && (*this)(out).last < in) ++out;
    return out;
  }
};

/// Calls f(out, weight) for the outputs that use an input pixel.
template <class F>
BRAID_HOST_DEVICE void for_outputs_over(const ResampledAxis& axis, std::int64_t in, const F& f) {
  for (std::int64_t out = axis.begin_over(in); out < axis.output; ++out) {
    const PixelPair pair = axis(out);
    if (pair.first > in) return;
    f(out, pair.weight_of(in));
  }
}

/// Both axes of an upsampling from x to y.
struct Resampling {
  std::int64_t images, channels;
  ResampledAxis h, w;

  Resampling(const ops::InterpolateAttributes& o, const Shape& x, const Shape& y)
      : images(x[0]),
        channels(x[3]),
        h{x[1], y[1], o.step_h, o.mode, o.align_corners},
        w{x[2], y[2], o.step_w, o.mode, o.align_corners} {}
};

}  // namespace braid
