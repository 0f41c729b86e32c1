#pragma once
// The inner loop of the portable convolutions and matrix products: a row plus a vector times a matrix.

#include <cstdint>

namespace braid::cpu {

/// y[i] += Σⱼ a[j·a_stride]·b[j·b_stride + i] for i in [0, width) and j from 0 to count − 1. y overlaps neither a nor
/// b.
void multiply_add(std::int64_t width, std::int64_t count, const float* a, std::int64_t a_stride, const float* b,
                  std::int64_t b_stride, float* y);
void multiply_add(std::int64_t width, std::int64_t count, const double* a, std::int64_t a_stride, const double* b,
                  std::int64_t b_stride, double* y);

}  // namespace braid::cpu
