#pragma once
// Bias and activation of convolutions that cuDNN cannot fuse with them.

#include "core/base/dtype.h"
#include "core/device/cuda/stream_handles.h"
#include "ops/common/activation.h"

namespace braid::cuda {

/// y [rows,channels] = act(y + bias) in the given floating dtype. The bias is null or [channels];
/// `units` are the SMs of the device.
void add_bias(const StreamHandles& stream, int units, void* y, const void* bias, Activation activation,
              std::int64_t rows, std::int64_t channels, DType dtype);

}  // namespace braid::cuda
