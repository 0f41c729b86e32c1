#pragma once
// How many thread blocks of a kernel an SM holds at once, by NVIDIA's occupancy formulas. They are host code
// (cuda_occupancy.h) and need the description of a device, not the device.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace braid::cuda {

/// What one thread block needs of an SM.
struct BlockNeeds {
  int threads = 256;
  int registers = 32;  ///< per thread
  std::size_t shared_bytes = 0;
};

/// Of Braid's own kernels: blocks of kThreads (ops/cuda/elements.cuh), and as much of the rest as is enough for nine in
/// ten of the kernels (scripts/check_kernels.py).
inline constexpr BlockNeeds kOwnBlocks{.threads = 256, .registers = 48, .shared_bytes = 8192};

/// The scarcest of warps, registers, shared memory and block slots limits the number of blocks. 0 if not even one block
/// fits. Looks at the limits of `device` per SM and per block, and at its compute capability. Throws DeviceError if the
/// formulas do not cover it.
int resident_blocks(const cudaDeviceProp& device, const BlockNeeds& needs);

}  // namespace braid::cuda
