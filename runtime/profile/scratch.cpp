#include "runtime/profile/scratch.h"

#include <algorithm>
#include <utility>

#include "core/align.h"
#include "scheduler/plan.h"

namespace braid {

Scratch::Scratch(const StepGraph& graph, NodeId node, const Kernel& kernel) {
  const std::vector<ValueDesc> inputs = graph.input_descs(node);
  std::vector<OutputDesc> outputs;
  graph.node(node).op->infer(inputs, outputs);
  const auto size = [](DType dtype, const Shape& shape) {
    return size_of(dtype) * static_cast<std::size_t>(shape.size());
  };
  for (const ValueDesc& input : inputs) inputs_.push_back(reserve(size(input.dtype, input.shape)));
  for (const OutputDesc& output : outputs) {
    outputs_.push_back(output.overwrites >= 0 ? inputs_[static_cast<std::size_t>(output.overwrites)]
                                              : reserve(size(output.dtype, output.shape)));
  }
  workspace_ = reserve(kernel.workspace_bytes());
}

std::size_t Scratch::reserve(std::size_t bytes) {
  return std::exchange(bytes_, bytes_ + align_up(bytes, std::size_t{scheduler::kArenaAlignment}));
}

void Scratch::bind(Kernel& kernel, void* base) const {
  const auto addresses = [&](const std::vector<std::size_t>& offsets) {
    std::vector<void*> list;
    for (const std::size_t offset : offsets) list.push_back(static_cast<std::byte*>(base) + offset);
    return list;
  };
  kernel.bind(addresses(inputs_), addresses(outputs_), static_cast<std::byte*>(base) + workspace_);
}

void clear_scratch(Backend& backend, Buffer& buffer, std::size_t bytes) {
  if (buffer.data() == nullptr || buffer.bytes() < bytes) {
    buffer = {};  // first release, then allocate: both together may not fit
    buffer = backend.allocate(bytes);
  }
  backend.clear(buffer.data(), bytes);
}

}  // namespace braid
