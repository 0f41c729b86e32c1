#pragma once
// The memory that all plans of a session share: as large as the largest plan needs, and used by one run at a time.

#include <algorithm>

#include "core/device/backend.h"

namespace braid {

class Arena {
 public:
  Arena(Backend& backend, StreamGroup& streams) : backend_(backend), streams_(streams) {}

  /// Makes the arena at least this large. May wait for what is running and move the arena, which loses its content.
  /// `largest`: of the arenas that ranks need for the same plans. Throws OutOfMemory, and is empty afterwards.
  void reserve(std::int64_t bytes, std::int64_t largest) {
    const auto needed = static_cast<std::size_t>(bytes);
    const std::int64_t most = std::max(largest_, largest);
    if (buffer_.data() == nullptr || buffer_.bytes() < needed) {
      release();  // first release, then allocate: both together may not fit
      buffer_ = backend_.allocate(needed);
    }
    largest_ = most;
  }
  /// Waits for what is running, and frees the memory.
  void release() {
    streams_.synchronize();
    buffer_ = {};
    largest_ = 0;
  }
  void* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }
  /// The largest that was reserved on any rank: equal on all.
  std::int64_t largest() const { return largest_; }

 private:
  Backend& backend_;
  StreamGroup& streams_;
  Buffer buffer_;
  std::int64_t largest_ = 0;
};

}  // namespace braid
