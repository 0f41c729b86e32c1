#include "core/cuda/green_contexts.h"

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
  try {
    unsigned given = 0;
    for (const int count : partition) {
      CUdevResource part{}, remaining{};
      unsigned groups = 1;
      const CUresult status = split(&part, &groups, &rest, &remaining, 0, static_cast<unsigned>(count));
      BRAID_CHECK(status == CUDA_SUCCESS && groups == 1, DeviceError, "[cuda] a stream requests ", plural(count, "SM"),
                  ", but ", all - given, " of ", all, " are left; they are given out in groups");
      given += part.sm.smCount;
      rest = remaining;
      CUdevResourceDesc description = nullptr;
      check(describe(&description, &part, 1), "cuDevResourceGenerateDesc");
      CUgreenCtx context = nullptr;
      check(create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
      contexts_.push_back(context);
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
            &stream, contexts_[static_cast<std::size_t>(index)], CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate");
  return stream;
}

void GreenContexts::destroy() {
  if (contexts_.empty()) return;
  const auto destroy_context = driver_function<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy");
  for (CUgreenCtx context : contexts_) static_cast<void>(destroy_context(context));
  contexts_.clear();
}

}  // namespace braid::cuda
