// The functions of the driver that the backend looks up: contexts, and green ones with their own SMs. SMs are given out
// in groups of eight, as on Hopper; four of the 132 belong to no whole group.

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "tests/cuda/recording/world.h"

struct CUdevResourceDesc_st {
  unsigned sms = 0;
};

namespace {

using namespace braid::recording;
using Kind = Call::Kind;

// As an H100 answers, whose groups lie within parts of up to 18 SMs.
constexpr unsigned kGroup = 8, kSms = 132, kMostGroups = 15;

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

/// Where SMs come from, in the bytes of a resource that belong to the driver.
struct Origin {
  unsigned split = 0;  // number of the split that made them; 0: the device
  unsigned group = 0;
};
static_assert(sizeof(Origin) <= sizeof(CUdevResource::_internal_padding));

Origin origin(const CUdevResource& resource) {
  Origin result;
  std::memcpy(&result, resource._internal_padding, sizeof result);
  return result;
}

void make_part(CUdevResource& part, Origin of, unsigned sms) {
  part = {};
  part.type = sms > 0 ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
  part.sm.smCount = sms;
  std::memcpy(part._internal_padding, &of, sizeof of);
}

CUresult split_resource(CUdevResource* parts, unsigned* count, const CUdevResource* from, CUdevResource* remaining,
                        unsigned flags, unsigned least) {
  return driver_call(Kind::other, "cuDevSmResourceSplitByCount", [&](World& world, Call&) {
    static unsigned splits = 0;
    if (from->type != CU_DEV_RESOURCE_TYPE_SM || flags != 0 || least > from->sm.smCount) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (origin(*from).split != 0) {
      world.mistake("SMs that come out of a split are split again");
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    }
    const unsigned sms = std::max(1u, (least + kGroup - 1) / kGroup) * kGroup;
    const unsigned most = std::min(kMostGroups, from->sm.smCount / sms);
    *count = parts == nullptr ? most : std::min(*count, most);
    if (parts == nullptr) return CUDA_SUCCESS;
    if (*count == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    ++splits;
    const unsigned rest = from->sm.smCount - *count * sms;  // before `remaining`, which may be `from`
    for (unsigned group = 0; group < *count; ++group) make_part(parts[group], {splits, group}, sms);
    if (remaining != nullptr) make_part(*remaining, {splits, *count}, rest);
    return CUDA_SUCCESS;
  });
}

CUresult describe_resource(CUdevResourceDesc* description, CUdevResource* resources, unsigned count) {
  return driver_call(Kind::other, "cuDevResourceGenerateDesc", [&](World& world, Call&) {
    static std::deque<CUdevResourceDesc_st> descriptions;
    static std::set<std::pair<unsigned, unsigned>> given_out;
    CUdevResourceDesc_st made;
    for (const CUdevResource& part : std::span(resources, count)) {
      const Origin of = origin(part);
      if (part.type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
      if (count > 1 && (of.split == 0 || of.split != origin(resources[0]).split)) {
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
      }
      if (!given_out.insert({of.split, of.group}).second) world.mistake("SMs are given out twice");
      made.sms += part.sm.smCount;
    }
    if (count == 0) return CUDA_ERROR_INVALID_VALUE;
    descriptions.push_back(made);
    *description = &descriptions.back();
    return CUDA_SUCCESS;
  });
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
  unsigned since = 12040;  ///< version of CUDA
};

const Entry kEntries[] = {{"cuDeviceGetDevResource", reinterpret_cast<void*>(get_resource)},
                          {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(split_resource)},
                          {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(describe_resource)},
                          {"cuGreenCtxCreate", reinterpret_cast<void*>(create_context)},
                          {"cuGreenCtxDestroy", reinterpret_cast<void*>(destroy_context)},
                          {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(create_green_stream), 12050},
                          {"cuCtxFromGreenCtx", reinterpret_cast<void*>(convert)},
                          {"cuCtxGetCurrent", reinterpret_cast<void*>(get_current)},
                          {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)}};

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                        unsigned long long, cudaDriverEntryPointQueryResult* result) {
  return cuda_call(Kind::other, __func__, Needs::nothing, [&](World&, Call&) {
    const auto* found = std::ranges::find(kEntries, name, &Entry::name);
    const bool known = found != std::end(kEntries) && version >= found->since;
    *function = known ? found->address : nullptr;
    if (result != nullptr) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}
