#pragma once
// The arithmetic of indirect.cpp, and of linear layers of few samples: products of small matrices whose rows lie
// anywhere, and packing. Call nothing here unless has_avx512().

#include <cstdint>

#include "ops/common/activation.h"
#include "ops/conv/cpu/normalized_input.h"

namespace braid::cpu::indirect {

inline constexpr std::int64_t kRows = 8;      ///< rows of a small product
inline constexpr std::int64_t kColumns = 32;  ///< columns of a small product, and of a packed panel

/// A product [rows, depth] · [depth, kColumns]. Element d of row i is a[i][d · a_step].
struct Term {
  const float* b;
  const float* a[kRows];
  std::int64_t b_step = kColumns;  ///< from one row of b to the next; kColumns if b is a packed panel
};

/// y[i][j] = start + the terms' sum, kept within the range, where start is y[i][j] itself, if `add`, else bias[j], or
/// zero if that is null.
struct Result {
  float* y[kRows];
  std::int64_t rows, columns;  ///< up to kRows and kColumns
  bool add;
  const float* bias;
  ActivationRange range;
};
void multiply(const Term* terms, std::int64_t count, std::int64_t depth, std::int64_t a_step, const Result& result);

/// Packs a matrix whose rows lie row_step apart in panels of kPanel columns (8, 16 or 32), which lie panel_step apart.
/// Columns beyond the last become zero.
template <std::int64_t kPanel>
void pack(const float* from, std::int64_t row_step, std::int64_t rows, std::int64_t columns, float* to,
          std::int64_t panel_step);
/// Packs a matrix whose columns lie column_step apart in one panel of kColumns.
void pack_transposed(const float* from, std::int64_t column_step, std::int64_t rows, std::int64_t columns, float* to);

/// Normalises in place what pack<kColumns> has packed: `columns` channels from `first` on.
void normalize_packed(const NormalizedInput& input, std::int64_t first, std::int64_t columns, std::int64_t rows,
                      float* packed, std::int64_t panel_step);

}  // namespace braid::cpu::indirect
