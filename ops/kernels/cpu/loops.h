#pragma once
// The inner loops of the memory-bound kernels, and how loops are cut. Iterations are independent, so `omp simd` holds
// even where an output lies exactly on an input: element i is read before it is written.

#include "core/base/align.h"
#include "core/device/parallel.h"
#include "ops/kernels/cpu/target_clones.h"

namespace braid::cpu {

/// Elements that one thread takes at a time: large enough to hide the cost of taking them, small enough for its L2
/// cache.
inline constexpr std::int64_t kElementGrain = 16384;

/// Items of `size` elements that one thread takes at a time: about as many elements as given, but at least one item.
inline std::int64_t grain_of(std::int64_t size, std::int64_t elements = kElementGrain) {
  return std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, size));
}

struct Part {
  std::int64_t begin;
  std::int64_t size;
};
/// The i-th of `parts` nearly even parts of [0, size), with ends at multiples of `unit`.
inline Part part_of(std::int64_t size, std::int64_t unit, std::int64_t parts, std::int64_t i) {
  const std::int64_t units = divide_up(size, unit);
  const auto end = [&](std::int64_t part) { return std::min(size, units * part / parts * unit); };
  return {end(i), end(i + 1) - end(i)};
}

/// Calls f.operator()<count>() for a count from 1 to kMost, the largest if it is more.
template <int kMost, class F>
void with_constant(std::int64_t count, const F& f) {
  if constexpr (kMost > 1) {
    if (count < kMost) return with_constant<kMost - 1>(count, f);
  }
  f.template operator()<kMost>();
}

/// Calls f(i) for i in [begin, end).
template <class F>
BRAID_TARGET_CLONES void for_each_element(std::int64_t begin, std::int64_t end, F f) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) f(i);
}

template <class F>
void parallel_for_each_element(int width, std::int64_t size, F f) {
  parallel_for(width, size, kElementGrain,
               [&](std::int64_t begin, std::int64_t end) { for_each_element(begin, end, f); });
}

/// total[i] = the sum of part(0)[i], part(1)[i], …, added in order.
template <class AddressOf>
void sum_parts(int width, std::int64_t size, std::int64_t parts, const AddressOf& part, float* total) {
  constexpr std::int64_t kGrain = 4096;  // stays in the first cache while the parts are added
  parallel_for(width, size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::copy(part(0) + begin, part(0) + end, total + begin);
    for (std::int64_t p = 1; p < parts; ++p) {
      for_each_element(begin, end, [=, from = part(p)](std::int64_t i) { total[i] += from[i]; });
    }
  });
}

/// y[i] += weight·x[i]. They do not overlap.
template <class T>
BRAID_TARGET_CLONES void add_scaled(std::int64_t size, T weight, const T* x, T* __restrict y) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) y[i] += weight * x[i];
}

/// Calls f(element, i) for every element of `rows` consecutive rows of `width`; i is its place in the row.
template <class F>
BRAID_TARGET_CLONES void for_each_in_rows(std::int64_t first_element, std::int64_t rows, std::int64_t width, F f) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = first_element + row * width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) f(begin + i, i);
  }
}

}  // namespace braid::cpu
