#pragma once
// The types of the CUDA runtime that headers of core/device/cuda mention.

#include <cstddef>

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
using cudaStream_t = struct CUstream_st*;
