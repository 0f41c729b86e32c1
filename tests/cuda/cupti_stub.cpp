// A libcupti for tests. Like the real one it links records of kernels to external ids only while the records of API
// calls are enabled too, and it writes down misuse. Tests tell it of launches, and find its own functions by dlsym.

#include <cupti.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

struct Stub {
  std::set<CUpti_ActivityKind> enabled;
  std::set<CUpti_ActivityKind> refused;
  bool attached = false, finalized = false;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::vector<std::uint64_t> external_ids;  // pushed, of the one thread that tests use
  std::vector<CUpti_ActivityExternalCorrelation> links;
#if CUPTI_API_VERSION >= 130000
  std::vector<CUpti_ActivityKernel10> kernels;
#else
  std::vector<CUpti_ActivityKernel9> kernels;
#endif
  std::uint32_t correlation = 0;
  std::string misuse;

  CUptiResult call(const char* function) {
    if (finalized) misuse += std::string(function) + " after cuptiFinalize; ";
    return finalized ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_SUCCESS;
  }
};
Stub stub;

template <class Record>
void append(std::uint8_t* buffer, std::size_t& at, const std::vector<Record>& records) {
  for (const Record& record : records) {
    std::memcpy(buffer + at, &record, sizeof record);
    at += sizeof record;
  }
}

}  // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  stub.request = request;
  stub.complete = complete;
  return stub.call(__func__);
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (stub.refused.contains(kind)) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (stub.request == nullptr) stub.misuse += "an activity is enabled before there are buffers; ";
  if (!stub.enabled.insert(kind).second) stub.misuse += "an activity is enabled twice; ";
  stub.attached = true;
  return stub.call(__func__);
}

CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  stub.external_ids.push_back(id);
  return stub.call(__func__);
}

CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* id) {
  if (stub.external_ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *id = stub.external_ids.back();
  stub.external_ids.pop_back();
  return stub.call(__func__);
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, most = 0, valid = 0;
  stub.request(&buffer, &size, &most);
  append(buffer, valid, stub.kernels);
  append(buffer, valid, stub.links);
  stub.kernels.clear();
  stub.links.clear();
  stub.complete(nullptr, 0, buffer, size, valid);
  return stub.call(__func__);
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  auto* at = reinterpret_cast<std::uint8_t*>(*record);
  if (at == nullptr) {
    at = buffer;
  } else if ((*record)->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    at += sizeof(stub.kernels[0]);
  } else {
    at += sizeof(stub.links[0]);
  }
  if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiFinalize() {
  const CUptiResult status = stub.call(__func__);
  stub.finalized = true;
  stub.enabled.clear();
  return status;
}

/// A kernel is enqueued; its records are the next of its kind, 3 us long and 1 us after the last.
void stub_launch() {
  if (stub.finalized) return;
  ++stub.correlation;
  const bool calls =
      stub.enabled.contains(CUPTI_ACTIVITY_KIND_DRIVER) || stub.enabled.contains(CUPTI_ACTIVITY_KIND_RUNTIME);
  if (calls && stub.enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !stub.external_ids.empty()) {
    auto& link = stub.links.emplace_back();
    link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    link.externalId = stub.external_ids.back();
    link.correlationId = stub.correlation;
  }
  if (stub.enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    auto& kernel = stub.kernels.emplace_back();
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.start = 4000ull * stub.correlation;
    kernel.end = kernel.start + 3000;
    kernel.correlationId = stub.correlation;
  }
}

void stub_refuse(CUpti_ActivityKind kind) { stub.refused.insert(kind); }

bool stub_finalized() { return stub.finalized; }

/// What was done wrong so far, and whether CUPTI is still attached.
const char* stub_misuse() {
  static std::string text;
  text = stub.misuse + (stub.attached && !stub.finalized ? "still attached" : "");
  return text.c_str();
}

}  // extern "C"
