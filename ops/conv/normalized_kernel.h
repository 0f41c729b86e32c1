#pragma once

#include "ops/kernels/kernels.h"

namespace braid {

/// Kernels of a NormalizedConv2d or NormalizedConv2dBackwardFilter that first write y to their workspace, and then run
/// the plain convolution, in each of its implementations.
Implementations normalize_first(DeviceType device, const KernelSpec& spec);

}  // namespace braid
