#pragma once
// How the host waits for a device. Work that waits for other ranks may never finish, so the code that enqueued it is
// called while the host waits.

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>

namespace braid::cuda {

/// While it lives, threads that wait for the device call `check` repeatedly, with the time that they have waited. What
/// it throws ends the wait.
class WaitCheck {
 public:
  using Check = std::function<void(std::chrono::nanoseconds waited)>;
  WaitCheck(int device, Check check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  const Check check_;
};

/// Returns when the event has happened, or all work in the stream is done. It belongs to the device. Throws
/// DeviceError, and what a WaitCheck of the device throws.
void wait(int device, cudaEvent_t event);
void wait(int device, cudaStream_t stream);

}  // namespace braid::cuda
