#pragma once
// Libraries refuse tensors without elements, such as an empty batch. A sum over nothing is zero.

#include <algorithm>

#include "ops/kernels/cuda/cuda_kernel.h"

namespace braid::cuda {

/// Whether an input or output of the node has no elements.
inline bool is_empty(const KernelSpec& spec) {
  const auto empty = [](const ValueDesc& value) { return value.shape.size() == 0; };
  return std::ranges::any_of(spec.inputs, empty) || std::ranges::any_of(spec.outputs, empty);
}

/// Fills the node's output with zeros.
inline std::unique_ptr<Kernel> zeros(const KernelSpec& spec) {
  const std::size_t bytes = spec.outputs[0].bytes();
  return function_kernel([bytes](const StreamHandles& stream, auto, auto outputs) {
    if (bytes > 0) BRAID_CUDA(cudaMemsetAsync(outputs[0], 0, bytes, stream.stream));
  });
}

}  // namespace braid::cuda
