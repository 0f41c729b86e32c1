#pragma once
// How long the engines of core/comm/communicator.h wait for other ranks, and why all calls fail after a failure.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "core/base/error.h"

namespace braid {

/// Now plus the timeout; a timeout that would overflow the clock counts as a year.
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(365 * 24));
}

/// Example: "2.5 s".
inline std::string in_seconds(std::chrono::nanoseconds time) {
  return message(std::chrono::duration<double>(time).count(), " s");
}

/// Why a communicator fails from now on, once there is a reason. May be used from any thread.
class FailureReason {
 public:
  /// The first reason stays.
  void set(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (is_set()) return;
    reason_ = reason;
    is_set_.store(true, std::memory_order_release);
  }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  /// Throws the reason as a CommunicationError, if there is one.
  void check() const {
    if (is_set()) throw CommunicationError(reason_);
  }

 private:
  std::mutex mutex_;
  std::string reason_;  // constant once set
  std::atomic<bool> is_set_ = false;
};

}  // namespace braid
