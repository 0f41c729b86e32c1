// A stand-in for cuDNN and cuBLASLt with one function of each.

#include <cublasLt.h>
#include <cudnn.h>

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "a stub's text" : "another status";
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
