#pragma once
// For convolutions that cuDNN cannot fuse with their bias.

#include "core/cuda/stream_handles.h"
#include "core/dtype.h"

namespace braid::cuda {

/// y [rows,channels] += bias [channels], in the given floating dtype.
void add_bias(const StreamHandles& stream, void* y, const void* bias, std::int64_t rows, std::int64_t channels,
              DType dtype);

}  // namespace braid::cuda
