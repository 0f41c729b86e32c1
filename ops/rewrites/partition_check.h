#pragma once
// Proves that the divided graph, run on all ranks, computes what was recorded.

#include <string>

#include "ops/rewrites/partition.h"

namespace braid::ops {

/// The first fault, as a sentence; empty if there is none. `divided` is what partition() made of the recorded graph,
/// along this axis of the mesh. Follows, from the inputs on, which part of which recorded value each value of the
/// divided graph has: its rows, a summand of it, its piece or all of it. A node has to be a recorded one, applied to
/// the parts that its op names (Op::divide), or to rearrange, exchange or add parts; and what is kept and persistent
/// has to be there as recorded. Trusts the rules of ops (Op::divide, Op::for_part), and shares no other code with
/// partition(). Does not check graphs with empty values, and those of one shard.
std::string check_partition(const StepGraph& recorded, const RewrittenGraph& divided, const Partition& partition,
                            std::size_t axis = 0);

}  // namespace braid::ops
