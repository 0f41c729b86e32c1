#pragma once
// How a kernel tells the host of bad data that it found.

#include "ops/kernels/cuda/cuda_kernel.h"

namespace braid::cuda {

/// Reports a value that was not in [0, bound), unless a fault is reported already. Threads that do so at the same time
/// report one of their values.
__device__ inline void report_fault(DataFault* fault, int kind, long long value, long long bound) {
  if (fault->kind != 0) return;
  fault->value = value;
  fault->bound = bound;
  __threadfence_system();  // the host must not see the kind before the rest
  fault->kind = kind;
}

}  // namespace braid::cuda
