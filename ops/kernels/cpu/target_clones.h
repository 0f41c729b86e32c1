#pragma once
// Hot loops are compiled for several instruction sets, and the dynamic linker picks the best for the machine. The
// attribute is for small functions over plain pointers, because functions that they call are cloned only if inlined.
// Sanitizers run before the dynamic linker has resolved such functions; Clang knows the attribute from version 16 on.

#include "core/device/cpu/avx512.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define BRAID_TARGET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BRAID_TARGET_CLONES
#endif

#if defined(__x86_64__)
// Functions between these are compiled for AVX-512, whatever the rest is compiled for. Call none unless has_avx512().
#if defined(__clang__)
#define BRAID_BEGIN_AVX512 _Pragma("clang attribute push(__attribute__((target(\"avx512f\"))), apply_to = function)")
#define BRAID_END_AVX512 _Pragma("clang attribute pop")
#else
#define BRAID_BEGIN_AVX512 _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f\")")
#define BRAID_END_AVX512 _Pragma("GCC pop_options")
#endif
#endif
