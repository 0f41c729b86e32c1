#pragma once
// Which of Braid's kernels is the fastest for a convolution on a CPU with AVX-512: a matter of shapes alone, so that a
// plan for such a CPU can be made anywhere. Measured on two Zen 4 cores against oneDNN.

#include "ops/kernels/kernels.h"

namespace braid::ops {

enum class CpuAlgorithm : std::uint8_t {
  library,   ///< none of Braid's
  grouped,   ///< groups of 1, 2, 4 or 8 channels
  winograd,  ///< 3x3 filters with stride 1
  indirect,  ///< few pixels, and the gradients of 1x1 filters
  pointwise  ///< 1x1 filters on many pixels
};

/// Fewest channels of input and output for which a kernel other than grouped is used.
inline constexpr std::int64_t kLeastChannels = 16;

/// For a Conv2d or one of its gradients. Without a library, depthwise convolutions of any size have Braid's kernel.
CpuAlgorithm fastest_cpu_algorithm(const KernelSpec& spec, bool has_library = true);

/// Whether the algorithm is the fastest, and this processor has AVX-512.
bool should_use(CpuAlgorithm algorithm, const KernelSpec& spec, bool has_library = true);

/// Whether the kernel of a NormalizedConv2d or NormalizedConv2dBackwardFilter normalises as it reads on a CPU with
/// AVX-512; others normalise first.
bool normalizes_on_load(const KernelSpec& spec);

}  // namespace braid::ops
