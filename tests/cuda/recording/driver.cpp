// The functions of the driver that the backend looks up: contexts, and green ones with SMs of their own. SMs are given
// out in groups of eight, as on Hopper; four of the 132 belong to no whole group.

#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/recording/world.h"

struct CUdevResourceDesc_st {
  unsigned sms = 0;
};

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

constexpr unsigned kGroup = 8, kSms = 132;

CUresult driver_call(Kind kind, std::string_view function, const std::function<CUresult(World&, Call&)>& body) {
  return static_cast<CUresult>(library_call(kind, function, CUDA_ERROR_ILLEGAL_ADDRESS,
                                            [&](World& world, Call& call) { return body(world, call); }));
}

CUresult get_resource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  *resource = {};
  resource->type = type;
  resource->sm.smCount = kSms;
  return CUDA_SUCCESS;
}

CUresult split_resource(CUdevResource* parts, unsigned* count, const CUdevResource* from, CUdevResource* remaining,
                        unsigned, unsigned least) {
  const unsigned sms = (least + kGroup - 1) / kGroup * kGroup;
  if (*count != 1 || sms > from->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  parts[0] = *remaining = *from;
  parts[0].sm.smCount = sms;
  remaining->sm.smCount -= sms;
  return CUDA_SUCCESS;
}

CUresult describe_resource(CUdevResourceDesc* description, CUdevResource* resources, unsigned) {
  static std::deque<CUdevResourceDesc_st> descriptions;
  descriptions.push_back({resources->sm.smCount});
  *description = &descriptions.back();
  return CUDA_SUCCESS;
}

CUresult create_context(CUgreenCtx* handle, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  return driver_call(Kind::create, "cuGreenCtxCreate", [&](World& world, Call& call) {
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    CUgreenCtx_st& made = world.green_contexts.emplace_back();
    made.context.id = made.id = static_cast<int>(world.green_contexts.size());
    made.context.device = device;
    call.flags = description->sms;
    ++world.alive.contexts;
    *handle = &made;
    return CUDA_SUCCESS;
  });
}

CUresult destroy_context(CUgreenCtx context) {
  return driver_call(Kind::destroy, "cuGreenCtxDestroy", [&](World& world, Call&) {
    if (!context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    for (const CUstream_st& stream : world.streams) {
      if (stream.alive && stream.context == &context->context) world.mistake("a green context ends before its streams");
    }
    context->alive = context->context.alive = false;
    --world.alive.contexts;
    return CUDA_SUCCESS;
  });
}

CUresult convert(CUcontext* context, CUgreenCtx green) {
  *context = &green->context;
  return green->alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult get_current(CUcontext* context) {
  *context = World::get().current();
  return CUDA_SUCCESS;
}

CUresult set_current(CUcontext context) {
  return driver_call(Kind::other, "cuCtxSetCurrent", [&](World& world, Call&) {
    if (context != nullptr && !context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    world.set_current(context);
    return CUDA_SUCCESS;
  });
}

CUresult create_green_stream(CUstream* stream, CUgreenCtx green, unsigned flags, int priority) {
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;  // as the driver demands
  CUcontext before = nullptr;
  get_current(&before);
  set_current(&green->context);
  const cudaError_t status = cudaStreamCreateWithPriority(stream, flags, priority);
  set_current(before);
  return status == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct Entry {
  std::string_view name;
  void* address;
};

const Entry kEntries[] = {{"cuDeviceGetDevResource", reinterpret_cast<void*>(get_resource)},
                          {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(split_resource)},
                          {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(describe_resource)},
                          {"cuGreenCtxCreate", reinterpret_cast<void*>(create_context)},
                          {"cuGreenCtxDestroy", reinterpret_cast<void*>(destroy_context)},
                          {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(create_green_stream)},
                          {"cuCtxFromGreenCtx", reinterpret_cast<void*>(convert)},
                          {"cuCtxGetCurrent", reinterpret_cast<void*>(get_current)},
                          {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)}};

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World&, Call&) {
    const auto* found = std::ranges::find(kEntries, name, &Entry::name);
    const bool known = found != std::end(kEntries);
    *function = known ? found->address : nullptr;
    if (result != nullptr) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}
