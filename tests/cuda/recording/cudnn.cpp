// The parts of cuDNN that touch a device. Everything else comes from the real library, which can describe graphs and
// build plans for a device that is not there.

#include <cudnn.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/cuda/recording/world.h"

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

/// The same function of the real library, which comes after this one.
template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

cudnnStatus_t cudnn_call(Kind kind, std::string_view function,
                         const std::function<cudnnStatus_t(World&, Call&)>& body) {
  return static_cast<cudnnStatus_t>(library_call(kind, function, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                                                 [&](World& world, Call& call) { return body(world, call); }));
}

cudnnContext* handle_of(World& world, cudnnHandle_t handle, Call& call) {
  if (handle == nullptr || !handle->alive) {
    world.mistake(call.function + " uses a handle after its end");
    return nullptr;
  }
  call.handle = handle->id;
  return handle;
}

template <class T>
std::vector<T> attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type) {
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(descriptor, name, type, 0, &count, nullptr) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<T> values(static_cast<std::size_t>(count));
  if (cudnnBackendGetAttribute(descriptor, name, type, count, &count, values.data()) != CUDNN_STATUS_SUCCESS) return {};
  values.resize(static_cast<std::size_t>(count));
  return values;
}

/// What the real library says of an H200.
std::string h200_properties() {
  std::ifstream file(BRAID_RECORDING_DEVICE);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return cudnn_call(Kind::create, __func__, [&](World& world, Call& call) {
    cudnnContext& made = world.cudnn_handles.emplace_back();
    made.context = world.current();
    call.handle = made.id = static_cast<int>(world.cudnn_handles.size() + world.cublas_handles.size());
    ++world.alive.handles;
    *handle = &made;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return cudnn_call(Kind::destroy, __func__, [&](World& world, Call& call) {
    cudnnContext* context = handle_of(world, handle, call);
    if (context == nullptr) return CUDNN_STATUS_BAD_PARAM;
    context->alive = false;
    --world.alive.handles;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream_handle) {
  return cudnn_call(Kind::other, __func__, [&](World& world, Call& call) {
    cudnnContext* context = handle_of(world, handle, call);
    CUstream_st* stream = world.stream(stream_handle, call.function);
    if (context == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    call.stream = stream->id;
    if (!world.same_context(call.function, context->context, stream->context)) {
      return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    }
    context->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return cudnn_call(Kind::launch, __func__, [&](World& world, Call& call) {
    const cudnnContext* context = handle_of(world, handle, call);
    if (context == nullptr) return CUDNN_STATUS_BAD_PARAM;
    CUstream_st* stream = world.stream(context->stream, call.function);
    if (stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    if (!world.same_context(call.function, context->context, world.current())) return CUDNN_STATUS_BAD_PARAM;
    call.kernel = "cudnn";
    call.stream = stream->id;
    const auto sizes = attribute<std::int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
    const auto workspaces = attribute<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
    if (sizes.size() != 1 || workspaces.size() != 1) return CUDNN_STATUS_BAD_PARAM;
    call.workspace = {workspaces[0], static_cast<std::size_t>(sizes[0])};
    for (const void* data : attribute<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR)) {
      call.pointers.push_back({data, 0});
    }
    return enqueue_launch(world, call, *stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
  });
}

/// Whoever asks what device there is, is told of an H200.
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  static const auto set = real<decltype(cudnnBackendSetAttribute)>(__func__);
  if (name != CUDNN_ATTR_DEVICEPROP_DEVICE_ID && name != CUDNN_ATTR_DEVICEPROP_HANDLE) {
    return set(descriptor, name, type, count, values);
  }
  const std::string properties = h200_properties();
  return set(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             static_cast<std::int64_t>(properties.size()), properties.data());
}

}  // extern "C"
