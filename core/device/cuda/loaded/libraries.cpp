#include "core/device/cuda/loaded/libraries.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string_view>

#include "core/base/dynamic_library.h"

namespace braid::cuda {

namespace {

struct Libraries {
  DynamicLibrary cublaslt{message("libcublasLt.so.", CUDART_VERSION / 1000), BRAID_CUBLASLT_FOLDER};
  // Needs cuBLASLt, which is found by its name if it is there already.
  DynamicLibrary cudnn{message("libcudnn.so.", CUDNN_MAJOR), BRAID_CUDNN_FOLDER};
};

const Libraries& libraries() {
  static const Libraries loaded;
  return loaded;
}

template <class Function>
Function* find(std::string_view name) {
  const std::string problem = missing_library();
  BRAID_CHECK(problem.empty(), DeviceError, "[cuda] ", problem);
  const auto& [cublaslt, cudnn] = libraries();
  Function* const function = (name.starts_with("cudnn") ? cudnn : cublaslt).find(name.data());
  BRAID_CHECK(function != nullptr, DeviceError, "[cuda] ", name, " is not in the library that is installed: update it");
  return function;
}

}  // namespace

std::string missing_library() {
  const auto& [cublaslt, cudnn] = libraries();
  const bool has_cublaslt = cublaslt.problem().empty();
  if (has_cublaslt && cudnn.problem().empty()) return "";
  const std::string package = has_cublaslt ? message("nvidia-cudnn-cu", CUDART_VERSION / 1000) : "nvidia-cublas";
  return message((has_cublaslt ? cudnn : cublaslt).problem(), ": install it, for instance with 'pip install ", package,
                 "', and put its folder into LD_LIBRARY_PATH");
}

}  // namespace braid::cuda

/// Defines a function of a library, which passes its arguments on.
#define BRAID_LOADED(result, function, parameters, ...)                          \
  extern "C" result function parameters {                                        \
    static const auto loaded = braid::cuda::find<decltype(function)>(#function); \
    return loaded(__VA_ARGS__);                                                  \
  }

BRAID_LOADED(const char*, cublasLtGetStatusString, (cublasStatus_t status), status)
BRAID_LOADED(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), handle)
BRAID_LOADED(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), handle)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulDescCreate,
             (cublasLtMatmulDesc_t * descriptor, cublasComputeType_t compute, cudaDataType_t scale), descriptor,
             compute, scale)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t descriptor), descriptor)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulDescSetAttribute,
             (cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t name, const void* value,
              std::size_t bytes),
             descriptor, name, value, bytes)
BRAID_LOADED(cublasStatus_t, cublasLtMatrixLayoutCreate,
             (cublasLtMatrixLayout_t * layout, cudaDataType type, std::uint64_t rows, std::uint64_t columns,
              std::int64_t stride),
             layout, type, rows, columns, stride)
BRAID_LOADED(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), layout)
BRAID_LOADED(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,
             (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, const void* value,
              std::size_t bytes),
             layout, name, value, bytes)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), preference)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), preference)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
             (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name, const void* value,
              std::size_t bytes),
             preference, name, value, bytes)
BRAID_LOADED(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int room,
              cublasLtMatmulHeuristicResult_t* results, int* count),
             handle, matmul, a, b, c, d, preference, room, results, count)
BRAID_LOADED(cublasStatus_t, cublasLtMatmul,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void* alpha, const void* a,
              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes, cudaStream_t stream),
             handle, matmul, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
             bytes, stream)
BRAID_LOADED(const char*, cudnnGetErrorString, (cudnnStatus_t status), status)
BRAID_LOADED(void, cudnnGetLastErrorString, (char* text, std::size_t size), text, size)
BRAID_LOADED(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), handle)
BRAID_LOADED(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), handle)
BRAID_LOADED(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), handle, stream)
BRAID_LOADED(cudnnStatus_t, cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* stream), handle, stream)
BRAID_LOADED(cudnnStatus_t, cudnnBackendCreateDescriptor,
             (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor), type, descriptor)
BRAID_LOADED(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), descriptor)
BRAID_LOADED(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), descriptor)
BRAID_LOADED(cudnnStatus_t, cudnnBackendExecute,
             (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack), handle, plan, pack)
BRAID_LOADED(cudnnStatus_t, cudnnBackendSetAttribute,
             (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::int64_t count, const void* values),
             descriptor, name, type, count, values)
BRAID_LOADED(cudnnStatus_t, cudnnBackendGetAttribute,
             (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::int64_t room, std::int64_t* count, void* values),
             descriptor, name, type, room, count, values)
