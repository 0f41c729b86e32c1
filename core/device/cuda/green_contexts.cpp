#include "core/device/cuda/green_contexts.h"

#include <deque>

#include "core/base/align.h"
#include "core/base/error.h"
#include "core/device/cuda/check.h"
#include "core/text/text.h"

namespace braid::cuda {

namespace {

/// Functions of the driver are looked up, so that Braid starts where no driver is installed.
template <class Function>
Function* driver_function(const char* name) {
  constexpr unsigned kCuda12_5 = 12050;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &address, kCuda12_5, cudaEnableDefault, &result);
  cudaGetLastError();
  BRAID_CHECK(status == cudaSuccess && result == cudaDriverEntryPointSuccess, DeviceError, "[cuda] the driver has no ",
              name, ": a partition of the SMs needs green contexts, that is, a driver for CUDA 12.5 or newer");
  return reinterpret_cast<Function*>(address);
}

/// The driver's errors have the numbers of the runtime's.
void check(CUresult status, const char* call) { check_cuda(static_cast<cudaError_t>(status), call); }

/// All SMs in the smallest groups that the driver gives out, followed by the remaining SMs. The results of a split
/// cannot be split again, but a context may have several groups.
std::deque<CUdevResource> split(const CUdevResource& all) {
  constexpr char kName[] = "cuDevSmResourceSplitByCount";
  const auto function = driver_function<decltype(cuDevSmResourceSplitByCount)>(kName);
  constexpr unsigned kLeast = 1;  // the driver rounds it up
  unsigned count = 0;
  check(function(nullptr, &count, &all, nullptr, 0, kLeast), kName);
  std::vector<CUdevResource> groups(count);
  CUdevResource rest{};
  check(function(groups.data(), &count, &all, &rest, 0, kLeast), kName);
  std::deque<CUdevResource> parts(groups.begin(), groups.begin() + count);
  if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0) parts.push_back(rest);
  return parts;
}

/// Moves at least `requested` SMs out of those left. The remaining SMs complete a request if they suffice and whole
/// groups would take no fewer SMs, but are not given out alone while there are groups: the driver guarantees less for
/// them than for a group.
std::vector<CUdevResource> take(std::deque<CUdevResource>& left, int requested, unsigned all) {
  std::vector<CUdevResource> part;
  int taken = 0;
  while (taken < requested) {
    BRAID_CHECK(!left.empty(), DeviceError, "[cuda] a stream requests ", plural(requested, "SM"), ", but ", taken,
                " of ", all, " are left; they are given out in groups");
    const int needed = requested - taken, rest = static_cast<int>(left.back().sm.smCount);
    const int in_groups = align_up(needed, static_cast<int>(left.front().sm.smCount));
    const bool from_back = !part.empty() && needed <= rest && rest <= in_groups;
    part.push_back(from_back ? left.back() : left.front());
    from_back ? left.pop_back() : left.pop_front();
    taken += static_cast<int>(part.back().sm.smCount);
  }
  return part;
}

}  // namespace

void destroy_green_context(CUgreenCtx context) {
  static_cast<void>(driver_function<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy")(context));
}

GreenContexts::GreenContexts(int device, const std::vector<int>& partition) {
  if (partition.empty()) return;
  BRAID_CUDA(cudaSetDevice(device));
  BRAID_CUDA(cudaFree(nullptr));  // the primary context, which all green ones belong to

  CUdevResource all{};
  check(driver_function<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource")(device, &all,
                                                                                    CU_DEV_RESOURCE_TYPE_SM),
        "cuDeviceGetDevResource");
  std::deque<CUdevResource> left = split(all);
  const auto describe = driver_function<decltype(cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
  const auto create = driver_function<decltype(cuGreenCtxCreate)>("cuGreenCtxCreate");
  const auto convert = driver_function<decltype(cuCtxFromGreenCtx)>("cuCtxFromGreenCtx");
  get_current_ = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  set_current_ = driver_function<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent");
  for (const int requested : partition) {
    std::vector<CUdevResource> part = take(left, requested, all.sm.smCount);
    CUdevResourceDesc description = nullptr;
    check(describe(&description, part.data(), static_cast<unsigned>(part.size())), "cuDevResourceGenerateDesc");
    CUgreenCtx green = nullptr;
    check(create(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
    Context& made = contexts_.emplace_back();
    made.green = Handle<CUgreenCtx, destroy_green_context>(green);
    check(convert(&made.context, green), "cuCtxFromGreenCtx");
  }
}

cudaStream_t GreenContexts::make_stream(int index, int priority) const {
  CUstream stream = nullptr;
  check(driver_function<decltype(cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate")(
            &stream, contexts_[static_cast<std::size_t>(index)].green, CU_STREAM_NON_BLOCKING, priority),
        "cuGreenCtxStreamCreate");
  return stream;
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
