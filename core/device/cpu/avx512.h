#pragma once

namespace braid::cpu {

/// Whether this processor has AVX-512.
#if defined(__x86_64__)
inline bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
#else
inline bool has_avx512() { return false; }
#endif

}  // namespace braid::cpu
