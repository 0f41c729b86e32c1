#pragma once
// Every call of the CUDA runtime, cuDNN and cuBLASLt is checked. A failure becomes a DeviceError that names the call.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace braid::cuda {

/// Throw DeviceError unless the status is success: OutOfMemory for cudaErrorMemoryAllocation, DeviceLost if the device
/// is lost, whichever library noticed it. `call` is the text of the call.
void check_cuda(cudaError_t status, const char* call);
void check_cudnn(cudnnStatus_t status, const char* call);
void check_cublas(cublasStatus_t status, const char* call);

/// Whether an error has destroyed the device's context: CUDA promises no recovery but a new process.
bool is_sticky(cudaError_t status);

}  // namespace braid::cuda

#define BRAID_CUDA(call) ::braid::cuda::check_cuda((call), #call)
#define BRAID_CUDNN(call) ::braid::cuda::check_cudnn((call), #call)
#define BRAID_CUBLAS(call) ::braid::cuda::check_cublas((call), #call)
