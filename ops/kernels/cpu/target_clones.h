#pragma once
// Hot loops are compiled for several instruction sets, and the dynamic linker picks the best for the machine. The
// attribute goes on small functions over plain pointers, because functions that they call are cloned only if inlined.

// Sanitizers run before the dynamic linker has resolved such functions; Clang knows the attribute from version 16 on.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define BRAID_TARGET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BRAID_TARGET_CLONES
#endif

#if defined(__x86_64__)
namespace braid::cpu {
inline bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
}  // namespace braid::cpu
#endif
