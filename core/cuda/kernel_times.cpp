#include "core/cuda/kernel_times.h"

#if __has_include(<cupti.h>)

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace braid::cuda {

namespace {

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else  // CUDA 12, which counts its versions of CUPTI from 1
using KernelRecord = CUpti_ActivityKernel9;
#endif
/// libcupti.so.13 belongs to CUDA 13. Within a major version, records only grow at their end.
constexpr int kMajor = CUDART_VERSION / 1000;

/// The functions of CUPTI that are used here; null if there is no CUPTI of the version that this file was built with,
/// whose records it can read.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop = nullptr;
  bool usable = false;
};

const Cupti& cupti() {
  static const Cupti loaded = [] {
    Cupti functions;
    void* library = dlopen(("libcupti.so." + std::to_string(kMajor)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return functions;
    bool complete = true;
    const auto load = [&]<class Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(library, name));
      complete = complete && function != nullptr;
    };
    load(functions.register_callbacks, "cuptiActivityRegisterCallbacks");
    load(functions.enable, "cuptiActivityEnable");
    load(functions.disable, "cuptiActivityDisable");
    load(functions.flush, "cuptiActivityFlushAll");
    load(functions.next_record, "cuptiActivityGetNextRecord");
    load(functions.push, "cuptiActivityPushExternalCorrelationId");
    load(functions.pop, "cuptiActivityPopExternalCorrelationId");
    functions.usable = complete;
    return functions;
  }();
  return loaded;
}

/// What the records have said so far. CUPTI calls back without a context pointer, and from a thread of its own.
struct Records {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::int32_t> node_of;  // by correlation id
  std::vector<std::pair<std::uint32_t, KernelTime>> times;  // correlation id
};
Records records;

template <class Activity>
void add_time(const CUpti_Activity* record) {
  const auto& activity = *reinterpret_cast<const Activity*>(record);
  records.times.push_back({activity.correlationId, {activity.start, activity.end}});
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBytes));
  *size = *buffer == nullptr ? 0 : kBytes;
  *max_records = 0;
}

void CUPTIAPI read_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(records.mutex);
  for (CUpti_Activity* record = nullptr; cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS;) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: add_time<KernelRecord>(record); break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: add_time<CUpti_ActivityMemcpy6>(record); break;
      case CUPTI_ACTIVITY_KIND_MEMSET: add_time<CUpti_ActivityMemset4>(record); break;
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& link = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
        records.node_of[link.correlationId] = static_cast<std::int32_t>(link.externalId);
        break;
      }
      default: break;
    }
  }
  std::free(buffer);
}

}  // namespace

KernelTimes::KernelTimes() {
  if (!cupti().usable) return;
  {
    const std::lock_guard lock(records.mutex);
    records.node_of.clear();
    records.times.clear();
  }
  recording_ = cupti().register_callbacks(request_buffer, read_buffer) == CUPTI_SUCCESS;
  for (const CUpti_ActivityKind kind : kKinds) recording_ = recording_ && cupti().enable(kind) == CUPTI_SUCCESS;
}

KernelTimes::~KernelTimes() {
  if (!cupti().usable) return;
  for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(cupti().disable(kind));
}

void KernelTimes::begin(std::int32_t node) {
  if (!recording_) return;
  static_cast<void>(cupti().push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, static_cast<std::uint64_t>(node)));
}

void KernelTimes::end() {
  std::uint64_t node = 0;
  if (recording_) static_cast<void>(cupti().pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &node));
}

std::map<std::int32_t, KernelTime> KernelTimes::finish() {
  std::map<std::int32_t, KernelTime> times;
  if (!recording_) return times;
  static_cast<void>(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  const std::lock_guard lock(records.mutex);
  for (const auto& [correlation, time] : records.times) {
    const auto node = records.node_of.find(correlation);
    if (node == records.node_of.end()) continue;
    const auto [known, is_new] = times.try_emplace(node->second, time);
    if (is_new) continue;
    known->second.start = std::min(known->second.start, time.start);
    known->second.finish = std::max(known->second.finish, time.finish);
  }
  return times;
}

}  // namespace braid::cuda

#else  // a toolkit without CUPTI

namespace braid::cuda {

KernelTimes::KernelTimes() = default;
KernelTimes::~KernelTimes() = default;
void KernelTimes::begin(std::int32_t) {}
void KernelTimes::end() {}
std::map<std::int32_t, KernelTime> KernelTimes::finish() { return {}; }

}  // namespace braid::cuda

#endif
