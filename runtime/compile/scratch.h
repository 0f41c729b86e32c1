#pragma once
// Memory for a kernel that is timed on its own: inputs, outputs and workspace, one after another.

#include <vector>

#include "core/device/backend.h"
#include "core/graph/step_graph.h"

namespace braid {

class Scratch {
 public:
  Scratch(const StepGraph& graph, NodeId node, std::size_t workspace_bytes);

  std::size_t bytes() const { return bytes_; }
  /// Makes the floating inputs random numbers of magnitude 1/2 to 1: a GPU draws less power, and keeps a higher clock,
  /// where it computes with zeros. `base` is aligned as an arena is.
  void fill(Backend& backend, void* base) const;
  /// Binds a kernel of the node to bytes() bytes from `base` on.
  void bind(Kernel& kernel, void* base) const;

 private:
  struct Floats {
    std::size_t offset, bytes;
    DType dtype;
  };
  std::size_t reserve(std::size_t bytes);

  std::size_t bytes_ = 0;
  std::vector<std::size_t> inputs_, outputs_;  // offsets
  std::vector<Floats> floats_;                 // among the inputs
  std::size_t workspace_ = 0;
};

/// Makes `buffer` at least this large and fills it with zeros. Otherwise a kernel could reject what another has left,
/// such as labels out of range; and reading memory that was never written may read one cached page of zeros. Nothing
/// may be using the buffer. Throws OutOfMemory.
void clear_scratch(Backend& backend, Buffer& buffer, std::size_t bytes);

}  // namespace braid
