#pragma once
// The handles of a single stream, which kernels find in LaunchContext::native.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace braid::cuda {

/// Bad data that a kernel found, such as a label out of range. Lives in host memory that the device can write; the host
/// looks at it when it synchronises.
struct DataFault {
  int kind = 0;  ///< 0: none
  long long value = 0;
  long long bound = 0;

  static constexpr int kLabel = 1, kIndex = 2;  ///< `value` was not in [0, bound)
};

/// Counters of a stream with which kernels count their blocks, to find out which is the last. All are 0 between
/// kernels.
inline constexpr int kArrivalCounters = 1024;

struct StreamHandles {
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;      ///< set to this stream
  cublasLtHandle_t cublas = nullptr;  ///< takes stream and workspace with every call
  DataFault* fault = nullptr;         ///< device address; the first kernel to find a fault may write it
  unsigned* arrivals = nullptr;       ///< kArrivalCounters on the device
};

}  // namespace braid::cuda
