#pragma once
// Joining and splitting along channels moves whole rows, whatever their elements are.

#include "core/device/kernel.h"

namespace braid {

/// A tensor [...,C] as rows of bytes.
struct ByteRows {
  std::int64_t rows;
  std::int64_t bytes;

  explicit ByteRows(const ValueDesc& desc) {
    const std::int64_t channels = desc.shape[-1];
    rows = channels == 0 ? 0 : desc.shape.size() / channels;
    bytes = channels * static_cast<std::int64_t>(size_of(desc.dtype));
  }
};

}  // namespace braid
