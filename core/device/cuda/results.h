#pragma once
// The path of a step's results: device memory → pinned memory, at the end of the program that computes them, and from
// there to the host's arrays once the program has finished.

#include <span>
#include <vector>

#include "core/device/backend.h"
#include "core/device/cuda/handle.h"

namespace braid::cuda {

/// The results of one program at a time.
class Results {
 public:
  /// Enqueues the copies. Results sent before must have been delivered, else they are lost.
  void send(std::span<const Download> downloads, cudaStream_t stream);
  /// Moves what was sent to its targets; does nothing if it has done so. The copies must have finished.
  void deliver();

 private:
  Handle<void*, cudaFreeHost> host_;
  std::size_t bytes_ = 0;       // size of host_
  std::vector<Download> sent_;  // one after another
};

}  // namespace braid::cuda
