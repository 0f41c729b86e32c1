#pragma once

#include <vector>

#include "ops/conv/normalized_conv2d.h"
#include "ops/kernels/kernels.h"

namespace braid {

/// The addresses of the plain convolution's inputs, given that of y, or of x where kernels normalise as they read.
inline std::vector<void*> plain_inputs(void* image, std::span<void* const> inputs) {
  std::vector<void*> plain{image};
  plain.insert(plain.end(), inputs.begin() + ops::kNormalizationInputs, inputs.end());
  return plain;
}

/// Kernels of a NormalizedConv2d or NormalizedConv2dBackwardFilter that first write y to their workspace, and then run
/// the plain convolution, in each of its implementations.
Implementations normalize_first(DeviceType device, const KernelSpec& spec);

}  // namespace braid
