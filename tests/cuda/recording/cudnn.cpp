// The parts of cuDNN that touch a device. Everything else comes from the real library, which can describe graphs and
// build plans for a device that is not there.

#include <cudnn.h>
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "core/device/cuda/loaded/libraries.h"
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

/// The real library's description of an H200.
std::string h200_properties() {
  std::ifstream file(BRAID_RECORDING_DEVICE);
  return {std::istreambuf_iterator<char>(file), {}};
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr auto kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE, kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

/// What the real library does not learn about its descriptors.
struct Described {
  cudnnBackendDescriptorType_t type;
  bool has_handle = false;  // an operation graph for the device of a handle
};
std::map<cudnnBackendDescriptor_t, Described> descriptors;
std::mutex descriptors_mutex;

Described& described(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(descriptors_mutex);
  return descriptors.at(descriptor);
}

using SetAttribute = decltype(cudnnBackendSetAttribute);
using Finalize = decltype(cudnnBackendFinalize);

cudnnStatus_t set_described_device(SetAttribute* set, cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name) {
  const std::string properties = h200_properties();
  cudnnBackendDescriptor_t device = nullptr;
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device);
  set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(properties.size()),
      properties.data());
  real<Finalize>("cudnnBackendFinalize")(device);
  const cudnnStatus_t status = set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  cudnnBackendDestroyDescriptor(device);
  return status;
}

}  // namespace

/// Libraries that are linked are never missing, unless a test says so.
std::string braid::cuda::missing_library() {
  return LockedWorld()->take_fault("missing_library") == 0 ? "" : "a library is missing";
}

/// The function here, or else that of the real library.
braid::Symbol braid::cuda::find_function(const char* name) { return {dlsym(RTLD_DEFAULT, name)}; }

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return cudnn_call(Kind::create, __func__, [&](World& world, Call& call) {
    cudnnContext& made = world.cudnn_handles.emplace_back();
    made.context = world.current();
    call.handle = made.id = ++world.last_handle;
    *handle = &made;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return cudnn_call(Kind::destroy, __func__, [&](World& world, Call& call) {
    cudnnContext* context = handle_of(world, handle, call);
    if (context == nullptr) return CUDNN_STATUS_BAD_PARAM;
    context->alive = false;
    if (context->stream != nullptr) --world.alive.handles;
    world.breaks_capture_of_device();  // it waits for the device
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream_handle) {
  return cudnn_call(Kind::other, __func__, [&](World& world, Call& call) {
    cudnnContext* context = handle_of(world, handle, call);
    if (context != nullptr && stream_handle == nullptr) {  // given back
      if (std::exchange(context->stream, nullptr) != nullptr) --world.alive.handles;
      return CUDNN_STATUS_SUCCESS;
    }
    CUstream_st* stream = world.stream(stream_handle, call);
    if (context == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    if (!world.same_context(call.function, context->context, stream->context)) {
      return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
    }
    if (context->stream == nullptr) ++world.alive.handles;
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
    CUstream_st* stream = world.stream(context->stream, call);
    if (stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
    if (!world.same_context(call.function, context->context, world.current())) return CUDNN_STATUS_BAD_PARAM;
    call.kernel = "cudnn";
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

/// Queries of the device, and plans for the device of a handle, get an H200.
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  static const auto set = real<SetAttribute>(__func__);
  if (name == kGraphHandle || name == kPlanHandle) {
    return cudnn_call(Kind::other, __func__, [&](World& world, Call& call) {
      if (handle_of(world, *static_cast<const cudnnHandle_t*>(values), call) == nullptr) return CUDNN_STATUS_BAD_PARAM;
      call.index = name;
      if (name == kPlanHandle) return set_described_device(set, descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
      described(descriptor).has_handle = true;
      return CUDNN_STATUS_SUCCESS;
    });
  }
  if (name == CUDNN_ATTR_DEVICEPROP_DEVICE_ID) {
    const std::string properties = h200_properties();
    return set(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               static_cast<std::int64_t>(properties.size()), properties.data());
  }
  const cudnnStatus_t status = set(descriptor, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS || name != CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) return status;
  if (!described(*static_cast<const cudnnBackendDescriptor_t*>(values)).has_handle) return status;
  return set_described_device(set, descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = real<decltype(cudnnBackendCreateDescriptor)>(__func__)(type, descriptor);
  const std::lock_guard lock(descriptors_mutex);
  if (status == CUDNN_STATUS_SUCCESS) descriptors[*descriptor] = {type};
  return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  {
    const std::lock_guard lock(descriptors_mutex);
    descriptors.erase(descriptor);
  }
  return real<decltype(cudnnBackendDestroyDescriptor)>(__func__)(descriptor);
}

/// Tests may make it fail for engines: "cudnnBackendGetAttribute of an engine".
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most, std::int64_t* count,
                                       void* values) {
  if (described(descriptor).type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
    const int status = LockedWorld()->take_fault("cudnnBackendGetAttribute of an engine");
    if (status != 0) return static_cast<cudnnStatus_t>(status);
  }
  return real<decltype(cudnnBackendGetAttribute)>(__func__)(descriptor, name, type, most, count, values);
}

/// Tests may make it fail for plans and heuristics: "finalize plan", "finalize heuristics".
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const auto type = described(descriptor).type;
  int status = 0;
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) status = LockedWorld()->take_fault("finalize plan");
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) status = LockedWorld()->take_fault("finalize heuristics");
  return status == 0 ? real<Finalize>(__func__)(descriptor) : static_cast<cudnnStatus_t>(status);
}

void cudnnGetLastErrorString(char* text, std::size_t size) { std::strncpy(text, "the test says so", size); }

}  // extern "C"
