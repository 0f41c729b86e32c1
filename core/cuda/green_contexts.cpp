#include "core/cuda/green_contexts.h"

#include <utility>

#include "core/cuda/check.h"
#include "core/error.h"
#include "core/text.h"

namespace braid::cuda {

namespace {

/// Functions of the driver are looked up, so that Braid starts where no driver is installed.
template <class Function>
Function* driver_function(const char* name) {
  constexpr unsigned kCuda12_4 = 12040;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &address, kCuda12_4, cudaEnableDefault, &result);
  cudaGetLastError();
  BRAID_CHECK(status == cudaSuccess && result == cudaDriverEntryPointSuccess, DeviceError, "[cuda] the driver has no ",
              name, ": a partition of the SMs needs green contexts, that is, a driver for CUDA 12.4 or newer");
  return reinterpret_cast<Function*>(address);
}

void check(CUresult status, const char* call) {
  BRAID_CHECK(status == CUDA_SUCCESS, DeviceError, "[cuda] ", call, " failed with CUresult ", static_cast<int>(status),
              ": the partition of the SMs cannot be made");
}

}  // namespace

GreenContexts::GreenContexts(int device, const std::vector<int>& partition) {
  if (partition.empty()) return;
  BRAID_CUDA(cudaSetDevice(device));
  BRAID_CUDA(cudaFree(nullptr));  // the primary context, which all green ones belong to

  CUdevResource rest{};
  check(driver_function<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource")(device, &rest,
                                                                                    CU_DEV_RESOURCE_TYPE_SM),
        "cuDeviceGetDevResource");
  const unsigned all = rest.sm.smCount;
  const auto split = driver_function<decltype(cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount");
  const auto describe = driver_function<decltype(cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
  const auto create = driver_function<decltype(cuGreenCtxCreate)>("cuGreenCtxCreate");
  const auto convert = driver_function<decltype(cuCtxFromGreenCtx)>("cuCtxFromGreenCtx");
  get_current_ = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  set_current_ = driver_function<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
  try {
    for (const int count : partition) {
      const auto requested = static_cast<unsigned>(count);
      CUdevResource part{}, remaining{};
      unsigned groups = 1;
      if (split(&part, &groups, &rest, &remaining, 0, requested) != CUDA_SUCCESS || groups != 1) {
        BRAID_CHECK(rest.sm.smCount >= requested, DeviceError, "[cuda] a stream requests ", plural(count, "SM"),
                    ", but ", rest.sm.smCount, " of ", all, " are left; they are given out in groups");
        part = std::exchange(rest, {});  // the last ones are no whole group
      } else {
        rest = remaining;
      }
      CUdevResourceDesc description = nullptr;
      check(describe(&description, &part, 1), "cuDevResourceGenerateDesc");
      Context& made = contexts_.emplace_back();
      check(create(&made.green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
      check(convert(&made.context, made.green), "cuCtxFromGreenCtx");
    }
  } catch (...) {
    destroy();
    throw;
  }
}

GreenContexts::~GreenContexts() { destroy(); }

cudaStream_t GreenContexts::make_stream(int index, int priority) const {
  CUstream stream = nullptr;
  check(driver_function<decltype(cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate")(
            &stream, contexts_[static_cast<std::size_t>(index)].green, CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate");
  return stream;
}

void GreenContexts::destroy() {
  if (contexts_.empty()) return;
  const auto destroy_context = driver_function<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy");
  for (const Context& context : contexts_) {
    if (context.green != nullptr) static_cast<void>(destroy_context(context.green));
  }
  contexts_.clear();
}

GreenContexts::Scope::Scope(const GreenContexts& contexts, int index) : contexts_(contexts) {
  if (contexts.count() == 0) return;
  check(contexts.get_current_(&before_), "cuCtxGetCurrent");
  check(contexts.set_current_(contexts.contexts_[static_cast<std::size_t>(index)].context), "cuCtxSetCurrent");
}

GreenContexts::Scope::~Scope() {
  if (contexts_.count() > 0) static_cast<void>(contexts_.set_current_(before_));
}

}  // namespace braid::cuda
