#pragma once
// A tensor [...,C] as a matrix [rows,C], and sums over its rows. Two things make these loops run at the speed of memory
// for any C: narrow rows are processed side by side as one wide row, so that the innermost loop is long, and four rows
// are added at a time, so that the sums are loaded and stored only once per four rows.

#include "core/base/align.h"
#include "core/base/shape.h"
#include "ops/kernels/cpu/loops.h"

namespace braid::cpu {

struct ChannelRows {
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t repeat;  ///< rows side by side in a wide row
  std::int64_t grain;   ///< rows of a piece, the unit of parallel work
  std::int64_t block;   ///< rows of a block: how far T accumulates before the sum moves on to double

  explicit ChannelRows(const Shape& shape) : rows(shape[-1] == 0 ? 0 : shape.size() / shape[-1]), channels(shape[-1]) {
    constexpr std::int64_t kWide = 128, kMaxPieces = 64;
    const std::int64_t c = std::max<std::int64_t>(channels, 1);
    repeat = std::max<std::int64_t>(1, kWide / c);
    const std::int64_t pieces = std::clamp<std::int64_t>(rows * c / 32768, 1, kMaxPieces);
    grain = round_up(divide_up(rows, pieces));
    block = round_up(std::max<std::int64_t>(64, 16384 / c));
  }

  std::int64_t width() const { return repeat * channels; }
  std::int64_t pieces() const { return divide_up(rows, grain); }

  /// Calls body(first element, count, width) for the wide rows of [begin, end) and then for the rows left over.
  template <class Body>
  void for_wide_rows(std::int64_t begin, std::int64_t end, const Body& body) const {
    const std::int64_t count = (end - begin) / repeat;
    if (count > 0) body(begin * channels, count, width());
    const std::int64_t rest = begin + count * repeat;
    if (rest < end) body(rest * channels, end - rest, channels);
  }

 private:
  std::int64_t round_up(std::int64_t row) const { return std::max(repeat, align_up(row, repeat)); }
};

/// The terms that one element adds to the sums of its channel.
template <class T>
struct Addends {
  T first;
  T second;
};

/// sums[i] += Σ over the rows of terms(element, i).first and, if kSums is 2, sums[width + i] += Σ terms(…).second.
template <int kSums, class T, class Terms>
BRAID_TARGET_CLONES void add_rows(std::int64_t first_element, std::int64_t rows, std::int64_t width, Terms terms,
                                  T* __restrict sums) {
  T* __restrict const second_sums = sums + (kSums - 1) * width;
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const std::int64_t begin = first_element + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const Addends<T> a = terms(begin + i, i), b = terms(begin + width + i, i);
      const Addends<T> c = terms(begin + 2 * width + i, i), d = terms(begin + 3 * width + i, i);
      sums[i] += (a.first + b.first) + (c.first + d.first);
      if constexpr (kSums == 2) second_sums[i] += (a.second + b.second) + (c.second + d.second);
    }
  }
  for (; row < rows; ++row) {
    const std::int64_t begin = first_element + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      const Addends<T> a = terms(begin + i, i);
      sums[i] += a.first;
      if constexpr (kSums == 2) second_sums[i] += a.second;
    }
  }
}

template <class T>
BRAID_TARGET_CLONES void add_to_double(std::int64_t size, const T* from, double* __restrict to) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) to[i] += static_cast<double>(from[i]);
}

/// Workspace of sum_channels.
template <int kSums, class T>
std::size_t sum_channels_bytes(const ChannelRows& rows) {
  return static_cast<std::size_t>(std::max<std::int64_t>(1, rows.pieces()) * kSums) *
         (static_cast<std::size_t>(rows.channels) * sizeof(double) +
          static_cast<std::size_t>(rows.width()) * sizeof(T));
}

/// Sums over all rows: returns [kSums, C] in the workspace. terms(element, i) gives the Addends of an element, i being
/// its place in a wide row; the second one counts only if kSums is 2. T accumulates within a block, double from there
/// on; pieces are added in order.
template <int kSums, class T, class Terms>
const double* sum_channels(int threads, const ChannelRows& rows, const Terms& terms, void* workspace) {
  const std::int64_t totals_size = kSums * rows.channels;
  const std::int64_t pieces = std::max<std::int64_t>(1, rows.pieces());
  double* totals = static_cast<double*>(workspace);
  T* sums = reinterpret_cast<T*>(totals + pieces * totals_size);
  std::fill_n(totals, pieces * totals_size, 0.0);

  parallel_for(threads, rows.rows, rows.grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t piece = begin / rows.grain;
    double* const piece_totals = totals + piece * totals_size;
    T* const block_sums = sums + piece * kSums * rows.width();
    for (std::int64_t row = begin; row < end; row += rows.block) {
      const auto add = [&](std::int64_t first_element, std::int64_t count, std::int64_t width) {
        std::fill_n(block_sums, kSums * width, T(0));
        add_rows<kSums>(first_element, count, width, terms, block_sums);
        for (std::int64_t k = 0; k < kSums; ++k) {
          for (std::int64_t i = 0; i < width; i += rows.channels) {
            add_to_double(rows.channels, block_sums + k * width + i, piece_totals + k * rows.channels);
          }
        }
      };
      rows.for_wide_rows(row, std::min(end, row + rows.block), add);
    }
  });
  for (std::int64_t piece = 1; piece < pieces; ++piece)
    add_to_double(totals_size, totals + piece * totals_size, totals);
  return totals;
}

}  // namespace braid::cpu
