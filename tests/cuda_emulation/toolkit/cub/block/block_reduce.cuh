#pragma once
// cub::BlockReduce by thread 0, in the order of the threads.

#include <cuda_runtime.h>

namespace cub {

template <class T, int kThreads>
class BlockReduce {
 public:
  struct TempStorage {
    T values[kThreads];
  };
  explicit BlockReduce(TempStorage& storage) : values_(storage.values) {}

  template <class Operation>
  T Reduce(T value, Operation operation) {
    values_[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x > 0) return T{};
    for (int i = 1; i < kThreads; ++i) value = operation(value, values_[i]);
    return value;
  }
  T Sum(T value) {
    return Reduce(value, [](T a, T b) { return a + b; });
  }

 private:
  T* values_;
};

}  // namespace cub
