#pragma once
// What the engines of core/communicator.h have in common: which call a rank makes, as text for errors, and the reason
// for which all calls fail.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"

namespace braid {

/// A collective as one rank calls it. All ranks' must be equal.
struct CollectiveCall {
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, barrier };
  Kind kind = Kind::barrier;
  std::int64_t count = 0;   ///< elements of a sum, else bytes
  DType dtype = DType::u8;  ///< of a sum
  int root = 0;             ///< of a broadcast
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;

  constexpr bool adds() const { return kind == Kind::all_reduce || kind == Kind::reduce_scatter; }

  /// As in "all_reduce of 12 f32" or "broadcast of 48 bytes from rank 1".
  std::string text() const {
    constexpr std::array<std::string_view, 6> kNames = {"all_reduce", "reduce_scatter", "all_gather",
                                                        "all_to_all", "broadcast",      "barrier"};
    const std::string_view name = kNames[static_cast<std::size_t>(kind)];
    if (kind == Kind::barrier) return std::string(name);
    if (adds()) return message(name, " of ", count, ' ', dtype);
    const std::string from = kind == Kind::broadcast ? message(" from rank ", root) : "";
    return message(name, " of ", count, " bytes", from);
  }

  /// Throws Error if no number of ranks could make this call.
  void check(int size) const {
    BRAID_CHECK(count >= 0, Error, "[communicator] ", text(), ": expected a count of at least 0");
    BRAID_CHECK(kind != Kind::broadcast || (root >= 0 && root < size), Error, "[communicator] ", text(), ": there ",
                size == 1 ? "is 1 rank" : message("are ", size, " ranks"));
    BRAID_CHECK(!adds() || dtype != DType::u8, Error, "[communicator] ", text(),
                ": sums take f32, f64 and i32, and where the engine adds them f16 and bf16");
  }
};

/// Now plus the timeout, but for one so long that clocks do not reach its end: then a year.
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(365 * 24));
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
