#pragma once

#include <cstdint>

#include "ops/common/activation.h"

namespace braid {

/// What a convolution applies to every element of its input as it reads it, by channel: (x − mean)·scale + shift, kept
/// within the range. Padding stays zero.
struct NormalizedInput {
  const float *mean = nullptr, *scale = nullptr, *shift = nullptr;
  ActivationRange range;
};

namespace cpu {

/// Normalises pixels [count, channels]. Requires has_avx512().
void normalize(const NormalizedInput& input, const float* from, std::int64_t count, std::int64_t channels, float* to);

}  // namespace cpu
}  // namespace braid
