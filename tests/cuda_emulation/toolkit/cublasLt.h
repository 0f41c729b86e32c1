#pragma once
// The types of cuBLASLt that headers of core/device/cuda mention.

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
using cublasLtHandle_t = struct cublasLtContext*;
