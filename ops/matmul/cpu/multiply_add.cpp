#include "ops/matmul/cpu/multiply_add.h"

#include "ops/kernels/cpu/target_clones.h"

namespace braid::cpu {

namespace {

/// Four rows of b at a time, so that y is loaded and stored once per four.
template <class T>
BRAID_TARGET_CLONES void add_products(std::int64_t width, std::int64_t count, const T* a, std::int64_t a_stride,
                                      const T* b, std::int64_t b_stride, T* __restrict y) {
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4, a += 4 * a_stride, b += 4 * b_stride) {
    const T a0 = a[0], a1 = a[a_stride], a2 = a[2 * a_stride], a3 = a[3 * a_stride];
    const T *b1 = b + b_stride, *b2 = b1 + b_stride, *b3 = b2 + b_stride;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[i] += (a0 * b[i] + a1 * b1[i]) + (a2 * b2[i] + a3 * b3[i]);
  }
  for (; j < count; ++j, a += a_stride, b += b_stride) {
    const T a0 = a[0];
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[i] += a0 * b[i];
  }
}

}  // namespace

void multiply_add(std::int64_t width, std::int64_t count, const float* a, std::int64_t a_stride, const float* b,
                  std::int64_t b_stride, float* y) {
  add_products(width, count, a, a_stride, b, b_stride, y);
}

void multiply_add(std::int64_t width, std::int64_t count, const double* a, std::int64_t a_stride, const double* b,
                  std::int64_t b_stride, double* y) {
  add_products(width, count, a, a_stride, b, b_stride, y);
}

}  // namespace braid::cpu
