#include "ops/conv/cpu/indirect/products.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "ops/conv/cpu/normalized_lanes.h"
#include "ops/conv/cpu/transpose.h"
#include "ops/kernels/cpu/target_clones.h"

BRAID_BEGIN_AVX512

namespace braid::cpu::indirect {

namespace {

using Vector = __m512;
constexpr int kLanes = 16;

/// Lanes of the j-th vector of a row of this many columns.
__mmask16 lanes_of(std::int64_t columns, int j) {
  const std::int64_t lanes = std::clamp<std::int64_t>(columns - j * kLanes, 0, kLanes);
  return static_cast<__mmask16>((1u << lanes) - 1);
}

template <int kHeight, int kVectors>
void multiply_rows(const Term* terms, std::int64_t count, std::int64_t depth, std::int64_t a_step,
                   const Result& result) {
  Vector sum[kHeight][kVectors];
  __mmask16 lanes[kVectors];
#pragma GCC unroll 2
  for (int j = 0; j < kVectors; ++j) {
    lanes[j] = lanes_of(result.columns, j);
    const Vector bias = result.bias == nullptr ? Vector{} : _mm512_maskz_loadu_ps(lanes[j], result.bias + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      __builtin_prefetch(result.y[i] + j * kLanes, 1);
      sum[i][j] = result.add ? _mm512_maskz_loadu_ps(lanes[j], result.y[i] + j * kLanes) : bias;
    }
  }
  for (const Term* term = terms; term != terms + count; ++term) {
    const float* a[kHeight];
    std::copy_n(term->a, kHeight, a);
    const float* b = term->b;
    for (std::int64_t at = 0; at != depth * a_step; at += a_step, b += term->b_step) {
      Vector right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) right[j] = _mm512_maskz_loadu_ps(lanes[j], b + j * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kHeight; ++i) {
        const Vector left = _mm512_set1_ps(a[i][at]);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = _mm512_fmadd_ps(left, right[j], sum[i][j]);
      }
    }
  }
  const Vector least = _mm512_set1_ps(result.range.least), most = _mm512_set1_ps(result.range.most);
#pragma GCC unroll 2
  for (int j = 0; j < kVectors; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      const Vector value = sum[i][j];
      _mm512_mask_storeu_ps(result.y[i] + j * kLanes, lanes[j], value < least ? least : value > most ? most : value);
    }
  }
}

template <int kVectors>
void multiply_columns(const Term* terms, std::int64_t count, std::int64_t depth, std::int64_t a_step,
                      const Result& result) {
  switch (result.rows) {
    case 1: return multiply_rows<1, kVectors>(terms, count, depth, a_step, result);
    case 2: return multiply_rows<2, kVectors>(terms, count, depth, a_step, result);
    case 3: return multiply_rows<3, kVectors>(terms, count, depth, a_step, result);
    case 4: return multiply_rows<4, kVectors>(terms, count, depth, a_step, result);
    case 5: return multiply_rows<5, kVectors>(terms, count, depth, a_step, result);
    case 6: return multiply_rows<6, kVectors>(terms, count, depth, a_step, result);
    case 7: return multiply_rows<7, kVectors>(terms, count, depth, a_step, result);
    default: return multiply_rows<8, kVectors>(terms, count, depth, a_step, result);
  }
}

}  // namespace

void multiply(const Term* terms, std::int64_t count, std::int64_t depth, std::int64_t a_step, const Result& result) {
  if (result.columns <= kLanes) {
    multiply_columns<1>(terms, count, depth, a_step, result);
  } else {
    multiply_columns<2>(terms, count, depth, a_step, result);
  }
}

template <std::int64_t kPanel>
void pack(const float* from, std::int64_t row_step, std::int64_t rows, std::int64_t columns, float* to,
          std::int64_t panel_step) {
  constexpr std::int64_t kAhead = 32;  // rows, too far apart for the hardware prefetcher
  const std::int64_t whole = columns / kPanel * kPanel;
  for (std::int64_t i = 0; i < rows; ++i, from += row_step, to += kPanel) {
    float* panel = to;
    for (std::int64_t j = 0; j < whole; j += kPanel, panel += panel_step) {
      if (j % kLanes == 0) __builtin_prefetch(from + j + kAhead * row_step, 0, 2);
      if (kPanel > kLanes) __builtin_prefetch(from + j + kAhead * row_step + kLanes, 0, 2);
      std::memcpy(panel, from + j, kPanel * sizeof(float));  // becomes vector moves, which copy_n does not
    }
    if (whole < columns) std::fill(std::copy(from + whole, from + columns, panel), panel + kPanel, 0.0f);
  }
}
template void pack<kRows>(const float*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t);
template void pack<kLanes>(const float*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t);
template void pack<kColumns>(const float*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t);

void normalize_packed(const NormalizedInput& input, std::int64_t first, std::int64_t columns, std::int64_t rows,
                      float* packed, std::int64_t panel_step) {
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const NormalizedLanes lanes(input, first + c, lanes_of(columns - c, 0));
    float* const panel = packed + c / kColumns * panel_step + c % kColumns;
    for (std::int64_t i = 0; i < rows * kColumns; i += kColumns) {
      _mm512_storeu_ps(panel + i, lanes(_mm512_loadu_ps(panel + i)));
    }
  }
}

void pack_transposed(const float* from, std::int64_t column_step, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    const __mmask16 inside = lanes_of(rows - row, 0);
    for (std::int64_t column = 0; column < kColumns; column += kLanes) {
      Vector block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const bool exists = column + i < columns;
        const float* const source = from + (column + i) * column_step + row;
        block[i] = exists ? _mm512_maskz_loadu_ps(inside, source) : Vector{};
        __builtin_prefetch(source + 4 * kLanes);
      }
      transpose(block);
      const std::int64_t height = std::min<std::int64_t>(kLanes, rows - row);
      for (std::int64_t i = 0; i < height; ++i) _mm512_storeu_ps(to + (row + i) * kColumns + column, block[i]);
    }
  }
}

}  // namespace braid::cpu::indirect

BRAID_END_AVX512
#endif  // __x86_64__
