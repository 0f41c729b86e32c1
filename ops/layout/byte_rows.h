#pragma once
// Joining and splitting along an axis moves whole rows, whatever their elements are.

#include "core/device/kernel.h"

namespace braid {

/// A tensor [...,C] as rows of bytes; or as rows of everything from another axis on.
struct ByteRows {
  std::int64_t rows = 1;
  std::int64_t bytes;

  explicit ByteRows(const ValueDesc& desc, int axis = -1) {
    const Shape& shape = desc.shape;
    if (axis < 0) axis += shape.rank();
    std::int64_t elements = 1;
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? rows : elements) *= shape[i];
    if (elements == 0) rows = 0;
    bytes = elements * static_cast<std::int64_t>(size_of(desc.dtype));
  }
};

}  // namespace braid
