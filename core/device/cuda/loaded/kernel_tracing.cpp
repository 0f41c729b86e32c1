#include "core/device/cuda/loaded/kernel_tracing.h"

#if __has_include(<cupti.h>)

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/dynamic_library.h"

namespace braid::cuda {

namespace {

// External-correlation records say which node an API call belongs to. They precede the records of the calls themselves,
// so there are none unless these are recorded too.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else  // CUDA 12, which counts its versions of CUPTI from 1
using KernelRecord = CUpti_ActivityKernel9;
#endif

/// The functions of CUPTI that are used here.
struct Cupti {
  // Belongs to a version of CUDA, within which records only grow at their end.
  DynamicLibrary library{message("libcupti.so.", CUDART_VERSION / 1000), "", RTLD_NOW | RTLD_LOCAL};
  std::string problem = library.problem().empty() ? "" : library.name() + " was not found";
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = find("cuptiActivityRegisterCallbacks");
  decltype(&cuptiActivityEnable) enable = find("cuptiActivityEnable");
  decltype(&cuptiActivityFlushAll) flush = find("cuptiActivityFlushAll");
  decltype(&cuptiActivityGetNextRecord) next_record = find("cuptiActivityGetNextRecord");
  decltype(&cuptiActivityPushExternalCorrelationId) push = find("cuptiActivityPushExternalCorrelationId");
  decltype(&cuptiActivityPopExternalCorrelationId) pop = find("cuptiActivityPopExternalCorrelationId");
  decltype(&cuptiFinalize) finalize = find("cuptiFinalize");

 private:
  Symbol find(const char* name) {
    const Symbol symbol = library.find(name);
    if (library.problem().empty() && symbol.address == nullptr) problem = library.name() + " has no " + name;
    return symbol;
  }
};

const Cupti& cupti() {
  static const Cupti loaded;
  return loaded;
}

/// The contents of the records so far. CUPTI calls back from its own thread, without a context pointer.
struct Records {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::int32_t> node_of;  // by correlation id
  std::vector<std::pair<std::uint32_t, KernelTime>> times;  // correlation id
};
Records records;
KernelTracing* tracing = nullptr;
bool was_attached = false;

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

/// Detaches for good, also after a partial attachment: else every launch of the process stays slow.
void detach() {
  static_cast<void>(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  static_cast<void>(cupti().finalize());
}

}  // namespace

KernelTracing::KernelTracing() {
  problem_ = cupti().problem;
  if (was_attached) problem_ = "it was detached from this process";
  if (!problem_.empty()) return;
  was_attached = true;
  const bool registered = cupti().register_callbacks(request_buffer, read_buffer) == CUPTI_SUCCESS;
  bool attached = registered;
  for (const CUpti_ActivityKind kind : kKinds) attached = attached && cupti().enable(kind) == CUPTI_SUCCESS;
  if (attached) {
    tracing = this;
  } else {
    problem_ = "another profiler uses it, or this user may not (NVreg_RestrictProfilingToAdminUsers)";
    if (registered) detach();
  }
}

KernelTracing::~KernelTracing() {
  if (tracing != this) return;
  tracing = nullptr;
  detach();
}

KernelTracing* KernelTracing::current() { return tracing; }

void KernelTracing::begin(std::int32_t node) {
  static_cast<void>(cupti().push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, static_cast<std::uint64_t>(node)));
}

void KernelTracing::end() {
  std::uint64_t node = 0;
  static_cast<void>(cupti().pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &node));
}

std::map<std::int32_t, KernelTime> KernelTracing::collect() {
  std::map<std::int32_t, KernelTime> times;
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
  records.node_of.clear();
  records.times.clear();
  return times;
}

}  // namespace braid::cuda

#else  // a toolkit without CUPTI

namespace braid::cuda {

KernelTracing::KernelTracing() : problem_("this build of Braid has no CUPTI") {}
KernelTracing::~KernelTracing() = default;
KernelTracing* KernelTracing::current() { return nullptr; }
void KernelTracing::begin(std::int32_t) {}
void KernelTracing::end() {}
std::map<std::int32_t, KernelTime> KernelTracing::collect() { return {}; }

}  // namespace braid::cuda

#endif
