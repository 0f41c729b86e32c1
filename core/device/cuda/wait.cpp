#include "core/device/cuda/wait.h"

#include <map>
#include <mutex>
#include <thread>

#include "core/device/cuda/check.h"

namespace braid::cuda {

namespace {

struct Checks {
  std::mutex mutex;
  std::multimap<int, const WaitCheck::Check*> of_device;
};
Checks& checks() {
  static Checks all;
  return all;
}

bool has_checks(int device) {
  const std::lock_guard lock(checks().mutex);
  return checks().of_device.contains(device);
}

void run_checks(int device, std::chrono::nanoseconds waited) {
  const std::lock_guard lock(checks().mutex);
  const auto [first, last] = checks().of_device.equal_range(device);
  for (auto check = first; check != last; ++check) (*check->second)(waited);
}

/// `query` says cudaErrorNotReady until the wait is over.
template <class Query>
void poll(int device, const char* call, const Query& query) {
  constexpr int kSpins = 100;  // then the core is left to other threads
  constexpr std::chrono::microseconds kPause{20};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0;; ++i) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return check_cuda(status, call);
    cudaGetLastError();  // some drivers remember even this
    run_checks(device, std::chrono::steady_clock::now() - begin);
    i < kSpins ? std::this_thread::yield() : std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

WaitCheck::WaitCheck(int device, Check check) : check_(std::move(check)) {
  const std::lock_guard lock(checks().mutex);
  checks().of_device.emplace(device, &check_);
}

WaitCheck::~WaitCheck() {
  const std::lock_guard lock(checks().mutex);
  std::erase_if(checks().of_device, [this](const auto& item) { return item.second == &check_; });
}

void wait(int device, cudaEvent_t event) {
  if (!has_checks(device)) return BRAID_CUDA(cudaEventSynchronize(event));
  poll(device, "cudaEventQuery", [event] { return cudaEventQuery(event); });
}

void wait(int device, cudaStream_t stream) {
  if (!has_checks(device)) return BRAID_CUDA(cudaStreamSynchronize(stream));
  poll(device, "cudaStreamQuery", [stream] { return cudaStreamQuery(stream); });
}

}  // namespace braid::cuda
