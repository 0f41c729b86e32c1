#pragma once
// Transposing with AVX-512. Call nothing here unless has_avx512().

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/kernels/cpu/target_clones.h"

BRAID_BEGIN_AVX512

namespace braid::cpu {

/// Transposes 16x16 floats: round by round, exchanges the off-diagonal quarters of blocks of 2, 4, 8 and 16.
inline void transpose(__m512 (&rows)[16]) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
  for (int half = 1; half < 16; half *= 2) {
    const __mmask16 right = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(half));
    const __m512i upper = _mm512_mask_add_epi32(lane, right, lane, _mm512_set1_epi32(16 - half));
    const __m512i lower =
        _mm512_mask_add_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(half)), right, lane, _mm512_set1_epi32(16));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if ((i & half) != 0) continue;
      const __m512 above = rows[i], below = rows[i + half];
      rows[i] = _mm512_permutex2var_ps(above, upper, below);
      rows[i + half] = _mm512_permutex2var_ps(above, lower, below);
    }
  }
}

}  // namespace braid::cpu

BRAID_END_AVX512
#endif  // __x86_64__
