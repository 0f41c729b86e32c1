#pragma once
// The memory that all plans of a session share: as large as the largest plan needs, and used by one run at a time.

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/device/backend.h"

namespace braid {

class Arena {
 public:
  Arena(Backend& backend, StreamGroup& streams) : backend_(backend), streams_(streams) {}

  /// Makes the arena at least this large. May wait for what is running and move the arena, which loses its content.
  /// `of_ranks`: the bytes that each rank reserves for its plan, where they differ, else one number for all. Throws
  /// OutOfMemory, and is empty afterwards.
  void reserve(std::int64_t bytes, std::span<const std::int64_t> of_ranks) {
    if (buffer_.data() != nullptr && has(of_ranks)) return;  // as in most runs, which allocate nothing
    const auto needed = static_cast<std::size_t>(bytes);
    std::vector<std::int64_t> reserved = of_ranks_;
    reserved.resize(of_ranks.size());
    std::ranges::transform(reserved, of_ranks, reserved.begin(), std::ranges::max);
    if (buffer_.data() == nullptr || buffer_.bytes() < needed) {
      release();  // first release, then allocate: both together may not fit
      buffer_ = backend_.allocate(needed);
    }
    of_ranks_ = std::move(reserved);
  }
  /// Waits for what is running, and frees the memory.
  void release() {
    streams_.synchronize();
    buffer_ = {};
    of_ranks_.clear();
  }
  void* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }
  /// Whether all ranks have reserved as much: equal on all.
  bool has(std::span<const std::int64_t> of_ranks) const {
    return of_ranks_.size() == of_ranks.size() && std::ranges::equal(of_ranks, of_ranks_, std::ranges::less_equal{});
  }

 private:
  Backend& backend_;
  StreamGroup& streams_;
  Buffer buffer_;
  std::vector<std::int64_t> of_ranks_;
};

}  // namespace braid
