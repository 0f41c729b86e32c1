#pragma once
// Memory for a kernel that is timed on its own: inputs, outputs and workspace, one after another.

#include <vector>

#include "core/backend.h"
#include "core/step_graph.h"

namespace braid {

class Scratch {
 public:
  Scratch(const StepGraph& graph, NodeId node, const Kernel& kernel);

  std::size_t bytes() const { return bytes_; }
  /// Binds the kernel to bytes() bytes from `base` on, which must be aligned as an arena is.
  void bind(Kernel& kernel, void* base) const;

 private:
  std::size_t reserve(std::size_t bytes);

  std::size_t bytes_ = 0;
  std::vector<std::size_t> inputs_, outputs_;  // offsets
  std::size_t workspace_ = 0;
};

/// Makes `buffer` at least so large, and all zeros: a kernel may find fault with what another has left there, as labels
/// out of range, and reading memory that was never written may be reading one page of zeros, out of the cache. Nothing
/// may be running in it. Throws OutOfMemory.
void clear_scratch(Backend& backend, Buffer& buffer, std::size_t bytes);

}  // namespace braid
