#pragma once
// Proves that the graph of a rank adds the values of its shards exactly once, and that ranks stay equal.

#include <string>
#include <vector>

#include "ops/rewrites/partition.h"

namespace braid::ops {

/// Every fault, as sentences; empty if there is none: a sum, gathering or exchange that does not have each shard of
/// the rank once, in their order, a gathering of anything but pieces, and a parameter or state that depends on what
/// only this rank has, unless it is split. Follows the shards along an axis of the mesh from the inputs through the
/// graph that partition() made along this axis, or along the next one after it if each rank has one shard along this
/// axis, and shares no code with it. With `has_halos`, a shard may have rows of its neighbours; with Partition::local,
/// parameters and states may be a rank's own. It does not know along which dimension a shard is split.
std::vector<std::string> check_shards(const StepGraph& divided, const Partition& partition, bool has_halos = false,
                                      std::size_t axis = 0);

/// Whether nodes of a recorded graph are divided along height or width, by an axis of the mesh.
bool may_have_halos(const StepGraph& recorded, std::size_t axis = 0);

}  // namespace braid::ops
