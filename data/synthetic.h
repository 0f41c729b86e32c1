#pragma once
// A synthetic dataset for tests, examples and benchmarks: each class has a random pattern of 4×4-pixel blocks, each
// image is the pattern of its class plus noise. A small network learns it in a few steps.

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace braid {

inline constexpr int kMaxSyntheticClasses = 10000;

struct SyntheticOptions {
  std::int64_t size = 1024;
  Shape shape = {32, 32, 3};  ///< shape of one image, [H,W,C]
  int classes = 10;           ///< 1 to kMaxSyntheticClasses
  std::uint64_t seed = 0;
  Split split = Split::train;  ///< all splits share the patterns, not the noise
};

/// The same options give the same bytes everywhere. Labels go 0, 1, …, classes - 1, 0, 1, …
/// Throws ConfigError if an option is out of range.
std::shared_ptr<const ImageDataset> synthetic(const SyntheticOptions& options);

}  // namespace braid
