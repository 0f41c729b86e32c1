#pragma once
// Gradients of some shards to compress, for both backends.

#include <cmath>

#include "core/base/random.h"
#include "ops/collective/compression.h"
#include "tests/ops/interpreter.h"

namespace braid::testing {

inline constexpr Compression::Method kMethods[] = {Compression::Method::top_k, Compression::Method::random_k,
                                                   Compression::Method::int8, Compression::Method::sign};
/// Elements of a shard: fewer than a block, whole blocks, and more.
inline constexpr std::int64_t kCompressedSizes[] = {0, 1, 5, 300, 1024, 1025, 5000};

/// A step's number, gradients and residuals; small integers have equal magnitudes.
template <class T>
std::vector<Array> compressed_inputs(std::int64_t shards, std::int64_t size, bool integers = false) {
  Generator random(1);
  const auto draw = [&] {
    std::vector<T> elements(static_cast<std::size_t>(shards * size));
    for (T& element : elements) element = static_cast<T>(integers ? std::round(random.normal()) : random.normal());
    return Array::from(elements, {shards, size});
  };
  const Array gradients = draw();
  return {Array::scalar<std::int32_t>(7), gradients, draw()};
}

}  // namespace braid::testing
