#pragma once
// Which inputs lie in a window of a pooling and which windows lie over an input. Both are rectangles of pixels. Extents
// are of type Index, so that a GPU may compute them in 32 bits.

#include "core/base/random.h"
#include "core/base/shape.h"
#include "ops/pool/pool.h"

namespace braid {

/// First and last-plus-one index of something.
template <class Index>
struct Range {
  Index begin;
  Index end;
  BRAID_HOST_DEVICE Index size() const { return end - begin; }
};

/// Pooling along one axis.
template <class Index, class Stride = Index>
struct WindowAxis {
  Index input;
  Index output;
  Index window;
  Stride stride;
  Index padding;

  /// Where the window of an output begins; negative inside the padding.
  BRAID_HOST_DEVICE Index start(Index out) const { return out * stride - padding; }
  /// The part of the window that lies in the image.
  BRAID_HOST_DEVICE Range<Index> inside(Index out) const {
    return {larger(0, start(out)), smaller(input, start(out) + window)};
  }
  /// Length of the window within image and padding, as PyTorch counts it.
  BRAID_HOST_DEVICE Index padded_size(Index out) const {
    return smaller(input + padding, start(out) + window) - start(out);
  }
  /// Outputs whose windows contain an input.
  BRAID_HOST_DEVICE Range<Index> outputs_over(Index in) const {
    const Index reach = in + padding;
    return {reach < window ? 0 : (reach - window) / stride + 1, smaller(output, reach / stride + 1)};
  }

 private:
  BRAID_HOST_DEVICE static Index smaller(Index a, Index b) { return b < a ? b : a; }
  BRAID_HOST_DEVICE static Index larger(Index a, Index b) { return a < b ? b : a; }
};

/// Adaptive pooling along one axis: the two ranges are each other's inverse, with input and output exchanged.
template <class Index>
struct AdaptiveAxis {
  Index input;
  Index output;

  BRAID_HOST_DEVICE Range<Index> inside(Index out) const {
    return {out * input / output, ((out + 1) * input + output - 1) / output};
  }
  BRAID_HOST_DEVICE Range<Index> outputs_over(Index in) const {
    return {in * output / input, ((in + 1) * output + input - 1) / input};
  }
};

template <class Axis>
struct Geometry {
  std::int64_t images, channels;
  Axis h, w;
};

template <class Index = std::int64_t, class Stride = Index>
Geometry<WindowAxis<Index, Stride>> windows(const PoolOptions& o, const Shape& x, const Shape& y) {
  const auto axis = [](auto input, auto output, auto window, auto stride, auto padding) {
    return WindowAxis<Index, Stride>{static_cast<Index>(input), static_cast<Index>(output), static_cast<Index>(window),
                                     Stride(static_cast<Index>(stride)), static_cast<Index>(padding)};
  };
  return {x[0], x[3], axis(x[1], y[1], o.window.h, o.stride.h, o.padding.h),
          axis(x[2], y[2], o.window.w, o.stride.w, o.padding.w)};
}

template <class Index = std::int64_t>
Geometry<AdaptiveAxis<Index>> adaptive_windows(const Shape& x, const Shape& y) {
  const auto axis = [](auto... extents) { return AdaptiveAxis<Index>{static_cast<Index>(extents)...}; };
  return {x[0], x[3], axis(x[1], y[1]), axis(x[2], y[2])};
}

}  // namespace braid
