#pragma once
// Random data.

#include <utility>

#include "core/base/random.h"
#include "core/graph/array.h"

namespace braid {

/// Standard normal elements of f32 or f64: the same numbers in both.
inline Array noise(const Shape& shape, std::uint64_t seed = 1, DType dtype = DType::f32) {
  Array array(dtype, shape);
  Generator generator(seed);
  if (dtype == DType::f64) {
    for (double& element : array.as<double>()) element = static_cast<double>(generator.normal());
  } else {
    for (float& element : array.as<float>()) element = generator.normal();
  }
  return array;
}

/// Images [count,side,side,3] and their labels. A sample depends on the seed and its number, from `first` on, alone.
inline std::pair<Array, Array> random_samples(std::uint64_t seed, std::int64_t first, std::int64_t count,
                                              std::int64_t side, std::uint32_t classes) {
  Array images(DType::f32, {count, side, side, 3}), labels(DType::i32, {count});
  const std::int64_t size = side * side * 3;
  for (std::int64_t i = 0; i < count; ++i) {
    Generator random(seed, static_cast<std::uint64_t>(first + i));
    for (std::int64_t e = 0; e < size; ++e)
      images.as<float>()[static_cast<std::size_t>(i * size + e)] = random.normal();
    labels.as<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(random.below(classes));
  }
  return {images, labels};
}

}  // namespace braid
