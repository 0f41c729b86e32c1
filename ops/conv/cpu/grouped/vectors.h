#pragma once
// The inner loops of convolutions whose groups have few channels, or one, over 16 channels at a time. Call nothing here
// unless has_avx512().

#include <cstdint>

#include "ops/common/activation.h"

namespace braid::cpu::grouped {

inline constexpr std::int64_t kMaxTaps = 3;  ///< rows, and columns, of taps in one call

/// Outputs that see the same taps. Pointers are to channel 0 of the first output, of the input that it sees at the
/// first tap, and of that tap; steps are in floats. A tap of 16 channels is a vector for each channel of their groups.
struct Region {
  const float* x;
  float* y;
  float* w;
  std::int64_t channels;
  std::int64_t group;      ///< channels of a group
  std::int64_t count[3];   ///< images, rows and columns of outputs
  std::int64_t x_step[3];  ///< from one to the next
  std::int64_t y_step[3];
  std::int64_t taps[2];   ///< rows and columns, 1 to kMaxTaps
  std::int64_t x_tap[2];  ///< from one to the next
  std::int64_t w_tap[2];
  std::int64_t w_block;  ///< from 16 channels to the next
};

/// y = start + Σ x·w over the taps, kept within the range; start is y itself, if `add`, else the bias, or zero if that
/// is null.
void convolve(const Region& region, bool add, const float* bias, ActivationRange range);

/// w += Σ x·y over the outputs, for every tap.
void add_products(const Region& region);

}  // namespace braid::cpu::grouped
