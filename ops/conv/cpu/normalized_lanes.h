#pragma once
// NormalizedInput for 16 channels. Include it only in files that are compiled for AVX-512.

#include <immintrin.h>

#include "ops/conv/cpu/normalized_input.h"
#include "ops/kernels/cpu/target_clones.h"

BRAID_BEGIN_AVX512

namespace braid::cpu {

struct NormalizedLanes {
  __m512 mean, scale, shift, least, most;

  /// Loads those of 16 channels from c on that exist.
  NormalizedLanes(const NormalizedInput& input, std::int64_t c, __mmask16 inside = 0xffff)
      : mean(_mm512_maskz_loadu_ps(inside, input.mean + c)),
        scale(_mm512_maskz_loadu_ps(inside, input.scale + c)),
        shift(_mm512_maskz_loadu_ps(inside, input.shift + c)),
        least(_mm512_set1_ps(input.range.least)),
        most(_mm512_set1_ps(input.range.most)) {}

  __m512 operator()(__m512 x) const {
    const __m512 y = _mm512_fmadd_ps(x - mean, scale, shift);
    return y < least ? least : y > most ? most : y;
  }
};

}  // namespace braid::cpu

BRAID_END_AVX512
