#pragma once
// Models and data small enough for many tests.

#include "core/random.h"
#include "models/registry.h"

namespace braid {

/// Seven classes, an eighth of the width, and whatever else is small.
inline models::ModelOptions small_model(const Shape& image) {
  return {.classes = 7, .image_shape = image, .width = 0.125, .auxiliary = true, .hidden = {9, 8}};
}

/// Standard normal.
inline Array noise(const Shape& shape, std::uint64_t seed = 1) {
  Array array(DType::f32, shape);
  Generator generator(seed);
  for (float& value : array.as<float>()) value = generator.normal();
  return array;
}

/// 0, 1, 2, … for seven classes.
inline Array labels(std::int64_t count) {
  Array array(DType::i32, {count});
  std::int32_t next = 0;
  for (std::int32_t& label : array.as<std::int32_t>()) label = next++ % 7;
  return array;
}

}  // namespace braid
