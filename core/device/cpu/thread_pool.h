#pragma once
// Threads that help with loops. The thread that calls for a loop works on it itself; idle threads of the pool join in
// and take pieces. Any free thread takes the next piece, so a loop finishes no matter how many helpers join, or how
// late: on a busy machine, no loop waits for a thread that has no core to run on.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/device/parallel.h"

namespace braid::cpu {

class ThreadPool {
 public:
  /// The most threads that work on one loop.
  static constexpr int kMaxMembers = 64;

  /// The pool of this process, which all sessions share. It is never destroyed: its threads may sleep on while the
  /// process ends.
  static ThreadPool& instance();

  /// Makes sure that loops can have `threads` members. Throws DeviceError if the system refuses a thread.
  void reserve(int threads);

  /// Calls body(piece, member) once for every piece of [0, pieces), on the calling thread and up to width - 1 others,
  /// and returns when all are done. `member` is a number below `width` that no two threads have at a time. Undisturbed,
  /// a member gets the same neighbouring pieces in every loop of the same length. Any thread may call this. Rethrows
  /// the first exception of the body; the pieces that its thread would have taken are left to the others.
  void run(int width, std::int64_t pieces, LoopOrder order, LoopBody body);

 private:
  struct Loop;
  class Helper;

  ThreadPool() = default;

  std::mutex mutex_;  // held while helpers are added
  std::array<std::unique_ptr<Helper>, kMaxMembers - 1> helpers_;
  std::atomic<int> size_ = 0;  // how many of helpers_ exist
};

}  // namespace braid::cpu
