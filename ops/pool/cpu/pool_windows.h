#pragma once
// In both directions, every pooling kernel folds a rectangle of pixels into one pixel, channel by channel. Rectangles
// are folded in blocks of up to 3x3 pixels whose extents are known to the compiler, so that a block's pixels are all
// read in one loop over channels.

#include "core/base/shape.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/pool/pool_windows.h"

namespace braid::cpu {

using Range = braid::Range<std::int64_t>;
using WindowAxis = braid::WindowAxis<std::int64_t>;
using AdaptiveAxis = braid::AdaptiveAxis<std::int64_t>;

/// Calls body(image, row, number) for every row of [images,rows]; rows of `row_size` elements are numbered in that
/// order.
template <class Body>
void parallel_for_rows(int width, std::int64_t images, std::int64_t rows, std::int64_t row_size, const Body& body) {
  parallel_for(width, images * rows, grain_of(row_size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i / rows, i % rows, i);
  });
}

/// Calls f.operator()<size>(first) for pieces of kMost, 3 or 1, then at most one of 2 or 1, that cover [0, size).
template <int kMost, class F>
void for_pieces(std::int64_t size, const F& f) {
  std::int64_t first = 0;
  for (; size - first >= kMost; first += kMost) f.template operator()<kMost>(first);
  if constexpr (kMost == 3) {
    if (size - first == 2) f.template operator()<2>(first);
    if (size - first == 1) f.template operator()<1>(first);
  }
}

/// Calls f.operator()<rows, columns>(row, column) for blocks that cover a rectangle, whose pixels come row by row. Up
/// to kMost x kMost pixels are one block; larger rectangles have blocks of one row only.
template <int kMost = 3, class F>
void for_blocks(std::int64_t rows, std::int64_t columns, const F& f) {
  if (rows <= kMost && columns <= kMost) {
    return for_pieces<kMost>(rows, [&]<int kRows>(std::int64_t) {
      for_pieces<kMost>(columns, [&]<int kColumns>(std::int64_t) { f.template operator()<kRows, kColumns>(0, 0); });
    });
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for_pieces<kMost>(columns,
                      [&]<int kColumns>(std::int64_t column) { f.template operator()<1, kColumns>(row, column); });
  }
}

}  // namespace braid::cpu
