#pragma once
// The way of a step's inputs: host memory → pinned memory → device memory beside the arena, on a copy stream of its own
// while the step before is still running; then, on the compute stream, into the arena. Two slots take turns.

#include <span>

#include "core/backend.h"
#include "core/cuda/handle.h"

namespace braid::cuda {

class Staging {
 public:
  Staging();
  /// Copies host data so that work enqueued in `stream` from now on finds it at its targets. The sources may be reused
  /// at once. Waits on the host only if both slots are still on their way.
  void upload(std::span<const Upload> uploads, cudaStream_t stream);

 private:
  struct Slot {
    Handle<void*, cudaFreeHost> host;
    Handle<void*, cudaFree> device;
    std::size_t bytes = 0;
    EventHandle uploaded, consumed;
  };
  static void reserve(Slot& slot, std::size_t bytes);

  StreamHandle copies_;
  Slot slots_[2];
  int next_ = 0;
};

}  // namespace braid::cuda
