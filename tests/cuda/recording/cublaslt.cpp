// cuBLASLt: descriptors that remember their attributes, one algorithm for every product, and launches that do nothing.

#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

/// The workspace of the algorithm, if allowed: less than any real one, but not 0, so that tests see workspaces.
constexpr std::size_t kWorkspace = 4096;

struct Descriptor {
  std::map<int, std::vector<std::byte>> attributes;
  cudaDataType_t type{};  // for matrix layouts, as the next three
  std::uint64_t rows = 0, columns = 0;
  std::int64_t stride = 0;

  template <class T>
  T get(int name, T otherwise) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.size() != sizeof(T)) return otherwise;
    std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
};

template <class Handle>
Descriptor* descriptor(Handle handle) {
  return reinterpret_cast<Descriptor*>(handle);
}

cublasStatus_t cublas_call(Kind kind, std::string_view function,
                           const std::function<cublasStatus_t(World&, Call&)>& body) {
  return static_cast<cublasStatus_t>(library_call(kind, function, CUBLAS_STATUS_INTERNAL_ERROR,
                                                  [&](World& world, Call& call) { return body(world, call); }));
}

template <class Handle>
cublasStatus_t create(std::string_view function, Handle* handle, const Descriptor& description = {}) {
  return cublas_call(Kind::create, function, [&](World& world, Call&) {
    *handle = reinterpret_cast<Handle>(new Descriptor(description));
    ++world.alive.descriptors;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class Handle>
cublasStatus_t destroy(std::string_view function, Handle handle) {
  return cublas_call(Kind::destroy, function, [&](World& world, Call&) {
    if (handle == nullptr) return CUBLAS_STATUS_SUCCESS;
    delete descriptor(handle);
    --world.alive.descriptors;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class Handle>
cublasStatus_t set(Handle handle, int name, const void* value, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(value);
  descriptor(handle)->attributes[name].assign(begin, begin + bytes);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t element_bytes(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 1;
  }
}

/// All bytes from the first element to the last.
Bytes extent(const void* data, cublasLtMatrixLayout_t handle) {
  const Descriptor& layout = *descriptor(handle);
  const bool by_rows = layout.get<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL) == CUBLASLT_ORDER_ROW;
  const auto lines = static_cast<std::int64_t>(by_rows ? layout.rows : layout.columns);
  const auto line = static_cast<std::int64_t>(by_rows ? layout.columns : layout.rows);
  const auto batches = layout.get<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  const auto batch_stride = layout.get<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  const std::int64_t elements = (batches - 1) * batch_stride + (lines - 1) * layout.stride + line;
  return {data, static_cast<std::size_t>(elements) * element_bytes(layout.type)};
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return cublas_call(Kind::create, __func__, [&](World& world, Call& call) {
    cublasLtContext& made = world.cublas_handles.emplace_back();
    made.context = world.current();
    call.handle = made.id = ++world.last_handle;
    *handle = &made;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return cublas_call(Kind::destroy, __func__, [&](World& world, Call& call) {
    if (handle == nullptr || !handle->alive) return CUBLAS_STATUS_INVALID_VALUE;
    call.handle = handle->id;
    handle->alive = false;
    world.breaks_capture_of_device();  // it waits for the device
    return CUBLAS_STATUS_SUCCESS;
  });
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "the operation completed successfully";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "unknown error";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t, cudaDataType_t) {
  return create(__func__, handle);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy(__func__, handle); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  return set(handle, name, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t stride) {
  return create(__func__, handle, {.attributes = {}, .type = type, .rows = rows, .columns = columns, .stride = stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy(__func__, handle); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  return set(handle, name, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) { return create(__func__, handle); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) { return destroy(__func__, handle); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  return set(handle, name, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  return cublas_call(Kind::other, __func__, [&](World&, Call& call) {
    *found = 0;
    if (handle == nullptr || !handle->alive || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
    call.handle = handle->id;
    const auto most = descriptor(preference)->get<std::size_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
    results[0] = {};
    results[0].workspaceSize = std::min(most, kWorkspace);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void*, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream_handle) {
  return cublas_call(Kind::launch, __func__, [&](World& world, Call& call) {
    CUstream_st* stream = world.stream(stream_handle, call);
    if (handle == nullptr || !handle->alive || stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (!world.same_context(call.function, handle->context, stream->context) ||
        !world.same_context(call.function, handle->context, world.current())) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (algorithm == nullptr) world.mistake("cublasLtMatmul chooses its algorithm at launch");
    call.kernel = "cublasLt";
    call.handle = handle->id;
    call.workspace = {workspace, workspace_bytes};
    call.pointers = {extent(a, a_layout), extent(b, b_layout), extent(c, c_layout), extent(d, d_layout)};
    if (const void* bias = descriptor(operation)->get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr)) {
      call.pointers.push_back({bias, 0});
    }
    return enqueue_launch(world, call, *stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
  });
}

}  // extern "C"
