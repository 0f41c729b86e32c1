#pragma once
// Lets the last block of a kernel add up what all of them leave in memory.

#include <cuda_runtime.h>

namespace braid::cuda {

/// True in all threads of the last of `blocks` blocks to call it, which then sees all that they wrote before. The
/// counter is 0 before the first call and after the last.
__device__ inline bool is_last_to_arrive(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) last = blocks == 1 || atomicInc(counter, blocks - 1) == blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace braid::cuda
