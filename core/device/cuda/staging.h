#pragma once
// The path of a step's inputs: host memory → pinned memory → device memory outside the arena, on its own copy stream
// while the previous step is still running; then, on the compute stream, into the arena. Two slots alternate.

#include <span>
#include <vector>

#include "core/device/backend.h"
#include "core/device/cuda/handle.h"

namespace braid::cuda {

class Staging {
 public:
  Staging();
  /// Copies host data so that work enqueued in `stream` from now on finds it at its targets. The sources may be reused
  /// at once. Waits on the host only if both slots are still being copied.
  void upload(std::span<const Upload> uploads, cudaStream_t stream);
  /// Copies sources of the next upload to the device ahead of it. They must stay unchanged until then. Only the last
  /// prefetch before an upload counts.
  void prefetch(std::span<const Upload> uploads);

 private:
  struct Slot {
    Handle<void*, cudaFreeHost> host;
    Handle<void*, cudaFree> device;
    std::size_t bytes = 0;
    std::vector<Upload> held;  ///< one after another, aligned
    EventHandle uploaded, consumed;
  };

  /// Two slots that alternate.
  struct Pair {
    Slot slots[2];
    int next = 0;
  };

  /// Sends data into the next slot.
  Slot& fill(Pair& pair, std::span<const Upload> uploads);
  static void reserve(Slot& slot, std::size_t bytes);
  /// Moves the uploads that a slot holds to their targets, and takes them off the list.
  void deliver(Slot& slot, std::vector<Upload>& uploads, cudaStream_t stream);

  StreamHandle copies_;
  Pair prefetched_, others_;
  Slot* ahead_ = nullptr;  // the slot of the last prefetch, until an upload has used it
};

}  // namespace braid::cuda
