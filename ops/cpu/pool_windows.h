#pragma once
// Which inputs lie in a window and which windows lie over an input. Both are rectangles of pixels, and both directions
// of every pooling kernel fold such a rectangle into one pixel, channel by channel. Rectangles are folded in blocks of
// up to 3x3 pixels whose extents are known to the compiler, so that a block's pixels are all read in one loop over
// channels.

#include "core/shape.h"
#include "ops/cpu/loops.h"
#include "ops/pool.h"

namespace braid::cpu {

/// First and last-plus-one index of something.
struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

/// Pooling along one axis.
struct WindowAxis {
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

template <class Axis>
struct Geometry {
  std::int64_t images, channels;
  Axis h, w;
};

inline Geometry<WindowAxis> windows(const PoolOptions& o, const Shape& x, const Shape& y) {
  return {
      x[0], x[3], {x[1], y[1], o.window.h, o.stride.h, o.padding.h}, {x[2], y[2], o.window.w, o.stride.w, o.padding.w}};
}

inline Geometry<AdaptiveAxis> adaptive_windows(const Shape& x, const Shape& y) {
  return {x[0], x[3], {x[1], y[1]}, {x[2], y[2]}};
}

/// Calls body(image, row, number) for every row of [images,rows]; rows of `row_size` elements are numbered in that
/// order.
template <class Body>
void parallel_for_rows(int width, std::int64_t images, std::int64_t rows, std::int64_t row_size, const Body& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, row_size));
  parallel_for(width, images * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i / rows, i % rows, i);
  });
}

/// Calls f.operator()<size>(first) for pieces of 3, then at most one of 2 or 1, that cover [0, size).
template <class F>
void for_pieces(std::int64_t size, const F& f) {
  std::int64_t first = 0;
  for (; size - first >= 3; first += 3) f.template operator()<3>(first);
  if (size - first == 2) f.template operator()<2>(first);
  if (size - first == 1) f.template operator()<1>(first);
}

/// Calls f.operator()<rows, columns>(row, column) for blocks that cover a rectangle, whose pixels come row by row.
template <class F>
void for_blocks(std::int64_t rows, std::int64_t columns, const F& f) {
  if (columns > 3) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for_pieces(columns, [&]<int kColumns>(std::int64_t column) { f.template operator()<1, kColumns>(row, column); });
    }
    return;
  }
  for_pieces(rows, [&]<int kRows>(std::int64_t row) {
    for_pieces(columns, [&]<int kColumns>(std::int64_t) { f.template operator()<kRows, kColumns>(row, 0); });
  });
}

}  // namespace braid::cpu
