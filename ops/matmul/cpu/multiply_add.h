#pragma once
// What convolutions and matrix products share: the choice of a library's kernel, and the portable loops.

#include <algorithm>
#include <initializer_list>

#include "core/device/parallel.h"
#include "ops/kernels/kernels.h"

namespace braid::cpu {

/// The kernel of the first factory that has one for the spec. Null if none has, or if the spec allows none.
inline std::unique_ptr<Kernel> fast_kernel(
    const KernelSpec& spec, std::initializer_list<std::unique_ptr<Kernel> (*)(const KernelSpec&)> factories) {
  if (!spec.allows_fast_kernels()) return nullptr;
  for (const auto factory : factories) {
    if (auto kernel = factory(spec)) return kernel;
  }
  return nullptr;
}

/// A matrix [rows,columns] → [columns,rows].
template <class T>
void transpose(int width, std::int64_t rows, std::int64_t columns, const T* matrix, T* transposed) {
  parallel_for(width, columns, 64, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < rows; ++j) transposed[i * rows + j] = matrix[j * columns + i];
    }
  });
}

/// y = bias, or zero if that is null.
template <class T>
void start_from(const T* bias, std::int64_t count, T* y) {
  if (bias == nullptr) {
    std::fill_n(y, count, T(0));
  } else {
    std::copy_n(bias, count, y);
  }
}

/// y[i] += Σⱼ a[j·a_stride]·b[j·b_stride + i] for i in [0, width) and j from 0 to count − 1. y overlaps neither a nor
/// b.
void multiply_add(std::int64_t width, std::int64_t count, const float* a, std::int64_t a_stride, const float* b,
                  std::int64_t b_stride, float* y);
void multiply_add(std::int64_t width, std::int64_t count, const double* a, std::int64_t a_stride, const double* b,
                  std::int64_t b_stride, double* y);

}  // namespace braid::cpu
