#pragma once
// Reductions over the threads of a block, in an order that depends only on their number.

#include <cub/block/block_reduce.cuh>

namespace braid::cuda {

/// Thread 0 gets the sum of all values. Every thread of the block must call it.
template <int kBlockThreads, class T>
__device__ T block_sum(T value) {
  using Reduce = cub::BlockReduce<T, kBlockThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __syncthreads();  // an earlier call may still read the storage
  return Reduce(storage).Sum(value);
}

/// Thread 0 gets the smallest of all values. Every thread of the block must call it.
template <int kBlockThreads, class T>
__device__ T block_minimum(T value) {
  using Reduce = cub::BlockReduce<T, kBlockThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __syncthreads();
  return Reduce(storage).Reduce(value, [](T a, T b) { return b < a ? b : a; });
}

}  // namespace braid::cuda
