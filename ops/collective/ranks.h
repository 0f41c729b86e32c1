#pragma once
// The ranks that a kernel communicates with.

#include "ops/collective/collective.h"
#include "ops/kernels/kernels.h"

namespace braid::ops {

/// The communicator of these ranks; null if there is one. Throws Error if the kernel has none.
inline Communicator* communicator_of(const KernelSpec& spec, const MeshRanks& along) {
  if (along.ranks == 1) return nullptr;
  BRAID_CHECK(spec.communicator != nullptr, Error, "[", spec.op.name(), "] needs a communicator of ", along.ranks,
              " ranks");
  return &spec.communicator->among(along.group());
}

/// Exchanges the message of a node that sends or receives.
struct Exchange {
  Communicator* communicator;
  Message message;
  void operator()(void* data, const LaunchContext& where) const { communicator->exchange(message, data, where); }
};
inline Exchange exchange_of(const KernelSpec& spec) {
  BRAID_CHECK(spec.communicator != nullptr, Error, "[", spec.op.name(), "] needs a communicator");
  return {spec.communicator, *spec.op.communication(spec.inputs, spec.outputs).exchanged};
}

/// The number of this rank among them.
inline std::int64_t place_among(const KernelSpec& spec, const MeshRanks& along) {
  const Communicator* const communicator = communicator_of(spec, along);
  return communicator == nullptr ? 0 : communicator->rank();
}

}  // namespace braid::ops
