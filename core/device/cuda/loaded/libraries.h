#pragma once
// cuDNN and cuBLASLt are loaded when a CUDA device is used, so that a program starts on a machine that has neither.
// Functions that Braid calls. Nothing else has their names: a program may link the libraries itself.

#include <cublasLt.h>
#include <cudnn.h>

#include <string>

#include "core/base/loaded_function.h"

namespace braid::cuda {

/// Loads both libraries. Empty if that succeeds, else a sentence that says which one is missing and what to do. Calling
/// a function of a missing library throws DeviceError with that sentence.
std::string missing_library();
/// A function of either. A test that stands in for the libraries defines both of these itself.
Symbol find_function(const char* name);

#define BRAID_LOADED(function) inline constinit LoadedFunction<decltype(::function), find_function> function(#function)
BRAID_LOADED(cublasLtGetStatusString);
BRAID_LOADED(cublasLtCreate);
BRAID_LOADED(cublasLtDestroy);
BRAID_LOADED(cublasLtMatmulDescCreate);
BRAID_LOADED(cublasLtMatmulDescDestroy);
BRAID_LOADED(cublasLtMatmulDescSetAttribute);
BRAID_LOADED(cublasLtMatrixLayoutCreate);
BRAID_LOADED(cublasLtMatrixLayoutDestroy);
BRAID_LOADED(cublasLtMatrixLayoutSetAttribute);
BRAID_LOADED(cublasLtMatmulPreferenceCreate);
BRAID_LOADED(cublasLtMatmulPreferenceDestroy);
BRAID_LOADED(cublasLtMatmulPreferenceSetAttribute);
BRAID_LOADED(cublasLtMatmulAlgoGetHeuristic);
BRAID_LOADED(cublasLtMatmul);
BRAID_LOADED(cudnnGetErrorString);
BRAID_LOADED(cudnnGetLastErrorString);
BRAID_LOADED(cudnnCreate);
BRAID_LOADED(cudnnDestroy);
BRAID_LOADED(cudnnSetStream);
BRAID_LOADED(cudnnGetStream);
BRAID_LOADED(cudnnBackendCreateDescriptor);
BRAID_LOADED(cudnnBackendDestroyDescriptor);
BRAID_LOADED(cudnnBackendFinalize);
BRAID_LOADED(cudnnBackendExecute);
BRAID_LOADED(cudnnBackendSetAttribute);
BRAID_LOADED(cudnnBackendGetAttribute);
#undef BRAID_LOADED

}  // namespace braid::cuda
