#include "core/device/cuda/check.h"

#include <string_view>

#include "core/base/error.h"
#include "core/device/cuda/loaded/libraries.h"

namespace braid::cuda {

namespace {

/// "cudaMalloc" of "cudaMalloc(&data, bytes)".
std::string_view function_of(std::string_view call) { return call.substr(0, call.find('(')); }

/// A library call may have failed because the device is lost. The libraries link their own instances of the CUDA
/// runtime, whose last errors this one does not see. So this makes a call that reports any earlier fault of the device,
/// and that is allowed while a stream captures.
void check_device(const char* call) {
  auto capturing = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(nullptr, &capturing);
  if (is_sticky(status)) check_cuda(status, call);
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice: return true;
    default: return false;
  }
}

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failure that is reported once must not be found again by the next check
  const std::string text = message("[cuda] ", function_of(call), " failed: ", cudaGetErrorString(status), " (",
                                   cudaGetErrorName(status), ")");
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  if (is_sticky(status)) {
    throw DeviceLost(text + ". This process cannot use the GPU any more: start the program again");
  }
  throw DeviceError(text);
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  check_device(call);
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  throw DeviceError(message("[cudnn] ", function_of(call), " failed: ", cudnnGetErrorString(status),
                            *detail == '\0' ? "" : ": ", detail));
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check_device(call);
  throw DeviceError(message("[cublas] ", function_of(call), " failed: ", cublasLtGetStatusString(status)));
}

}  // namespace braid::cuda
