#include "ops/elementwise/cpu/normal.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "ops/kernels/cpu/target_clones.h"

// Box and Muller's formula needs a logarithm, a sine and a cosine for two numbers. These are written for the arguments
// that occur and without branches, so that the compiler computes a vector of them at once. Coefficients of the sine and
// cosine: fdlibm (Sun Microsystems, 1993), k_sin.c and k_cos.c.

namespace braid::cpu {

namespace {

constexpr std::int64_t kBlocks = 64;  ///< of Philox, that are computed at once

/// Exact below 2^52.
inline double to_double(std::uint64_t integer) {
  return std::bit_cast<double>(integer | std::bit_cast<std::uint64_t>(0x1p52)) - 0x1p52;
}

/// The logarithm of (bits + 1) / 2^32. With x = 2^e·m, m from √½ to √2, and s = (m − 1) / (m + 1),
/// log x = e·log 2 + 2·(s + s³/3 + s⁵/5 + …).
inline double log_of_unit(std::uint32_t bits) {
  const auto x = std::bit_cast<std::uint64_t>(to_double(bits) + 1);
  const std::uint64_t exponent = (x - std::bit_cast<std::uint64_t>(std::numbers::sqrt2 / 2)) >> 52;
  const double m = std::bit_cast<double>(x - (exponent << 52)), s = (m - 1) / (m + 1), z = s * s;
  double series = 2.0 / 21;
  for (int k = 19; k >= 3; k -= 2) series = series * z + 2.0 / k;
  return (to_double(exponent) - 32) * std::numbers::ln2 + (2 * s + s * z * series);
}

struct Direction {
  double cosine, sine;
};

/// The cosine and sine of an angle from 0 to 2π. Subtracts the nearest number of quarter turns, evaluates both series
/// for what is left, and swaps and negates the two as those quarter turns require.
inline Direction direction_of(double angle) {
  constexpr double kQuarterHigh = 1.57079632673412561417, kQuarterLow = 6.07710050650619224932e-11;
  const int quarters = static_cast<int>(angle * (2 / std::numbers::pi) + 0.5);
  const double x = (angle - quarters * kQuarterHigh) - quarters * kQuarterLow, z = x * x;
  double s = 1.58969099521155010221e-10, c = -1.13596475577881948265e-11;
  for (const double term : {-2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
                            8.33333333332248946124e-03, -1.66666666666666324348e-01}) {
    s = s * z + term;
  }
  for (const double term : {2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                            -1.38888888888741095749e-03, 4.16666666666666019037e-02}) {
    c = c * z + term;
  }
  s = x + x * z * s;
  c = 1 - (0.5 * z - z * z * c);
  const bool exchanged = quarters % 2 != 0;
  const double cosine = exchanged ? s : c, sine = exchanged ? c : s;
  return {((quarters + 1) & 2) != 0 ? -cosine : cosine, (quarters & 2) != 0 ? -sine : sine};
}

/// The numbers of kBlocks blocks.
BRAID_TARGET_CLONES void draw_blocks(const Generator& generator, std::uint64_t first, float (&numbers)[4 * kBlocks]) {
  std::uint32_t bits[4][kBlocks];
  float drawn[4][kBlocks];
#pragma omp simd
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    const PhiloxBlock block = generator.block(first + static_cast<std::uint64_t>(i));
    for (int j = 0; j < 4; ++j) bits[j][i] = block.x[j];
  }
  for (int j = 0; j < 4; j += 2) {
#pragma omp simd
    for (std::int64_t i = 0; i < kBlocks; ++i) {
      const double radius = std::sqrt(-2 * log_of_unit(bits[j][i]));
      const Direction direction = direction_of(2 * std::numbers::pi * 0x1p-32 * to_double(bits[j + 1][i]));
      drawn[j][i] = static_cast<float>(radius * direction.cosine);
      drawn[j + 1][i] = static_cast<float>(radius * direction.sine);
    }
  }
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < 4; ++j) numbers[4 * i + j] = drawn[j][i];
  }
}

}  // namespace

void draw_normal(const Generator& generator, std::uint64_t first, std::span<float> numbers) {
  float drawn[4 * kBlocks];
  for (std::size_t i = 0; i < numbers.size(); i += std::size(drawn)) {
    draw_blocks(generator, (first + i) / 4, drawn);
    std::copy_n(drawn, std::min(std::size(drawn), numbers.size() - i),
                numbers.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace braid::cpu
