#include "ops/conv/cpu/normalized_input.h"

#if defined(__x86_64__)

#include <algorithm>

#include "ops/conv/cpu/normalized_lanes.h"

BRAID_BEGIN_AVX512

namespace braid::cpu {

void normalize(const NormalizedInput& input, const float* from, std::int64_t count, std::int64_t channels, float* to) {
  constexpr std::int64_t kLanes = 16;
  for (std::int64_t i = 0; i < count; ++i, from += channels, to += channels) {
    for (std::int64_t c = 0; c < channels; c += kLanes) {
      const auto inside = static_cast<__mmask16>((1u << std::min(channels - c, kLanes)) - 1);
      const NormalizedLanes lanes(input, c, inside);
      _mm512_mask_storeu_ps(to + c, inside, lanes(_mm512_maskz_loadu_ps(inside, from + c)));
    }
  }
}

}  // namespace braid::cpu

BRAID_END_AVX512
#endif  // __x86_64__
