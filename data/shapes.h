#pragma once
// A synthetic dataset for segmentation: discs, squares, diamonds and crosses on a noisy ground, with a label for every
// pixel.

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace braid {

inline constexpr int kMaxShapeClasses = 5;

struct ShapesOptions {
  std::int64_t size = 1024;
  Shape shape = {32, 32, 3};  ///< shape of one image, [H,W,C]
  int classes = 5;            ///< 2 to kMaxShapeClasses: the ground and the first kinds of shapes
  std::uint64_t seed = 0;
  Split split = Split::train;
};

/// The same options give the same bytes everywhere. Throws ConfigError if an option is out of range.
std::shared_ptr<const ImageDataset> shapes(const ShapesOptions& options);

}  // namespace braid
