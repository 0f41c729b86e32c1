#pragma once
// Memory that a kernel owns, to keep a filter in another layout from launch to launch.

#include <cstdlib>
#include <memory>

#include "core/base/align.h"
#include "core/base/error.h"

namespace braid::cpu {

class KeptMemory {
 public:
  /// Does nothing if it has the memory already. Throws OutOfMemory.
  void allocate(std::size_t bytes) {
    if (memory_ != nullptr || bytes == 0) return;
    memory_.reset(std::aligned_alloc(kAlignment, align_up(bytes, kAlignment)));
    BRAID_CHECK(memory_ != nullptr, OutOfMemory, "[cpu] no memory for a filter of ", bytes, " bytes");
  }
  void release() { memory_.reset(); }
  void* data() const { return memory_.get(); }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace braid::cpu
