#pragma once
// The ranks that a kernel communicates with.

#include "ops/collective/collective.h"
#include "ops/kernels/function_kernel.h"

namespace braid::ops {

/// The communicator of these ranks; null if there is one. Throws Error if the kernel has none.
inline Communicator* communicator_of(const KernelSpec& spec, const MeshRanks& along) {
  if (along.ranks == 1) return nullptr;
  BRAID_CHECK(spec.communicator != nullptr, Error, "[", spec.op.name(), "] needs a communicator of ", along.ranks,
              " ranks");
  return &spec.communicator->among(along.group());
}

/// The kernel of a node that sends its input, or receives its output, on any device.
inline std::unique_ptr<Kernel> exchange_kernel(const KernelSpec& spec) {
  BRAID_CHECK(spec.communicator != nullptr, Error, "[", spec.op.name(), "] needs a communicator");
  Communicator* const communicator = spec.communicator;
  const Message message = *spec.op.communication(spec.inputs, spec.outputs).exchanged;
  return function_kernel([=](const LaunchContext& context, auto inputs, auto outputs) {
    const bool sends = message.direction == Message::Direction::send;
    communicator->exchange(message, sends ? inputs[0] : outputs[0], context);
  });
}

/// The number of this rank among them.
inline std::int64_t place_among(const KernelSpec& spec, const MeshRanks& along) {
  const Communicator* const communicator = communicator_of(spec, along);
  return communicator == nullptr ? 0 : communicator->rank();
}

}  // namespace braid::ops
