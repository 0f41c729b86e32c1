#pragma once
// Random data.

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

}  // namespace braid
