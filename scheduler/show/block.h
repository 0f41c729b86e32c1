#pragma once
// A part of a step as a step of its own, small enough to read node by node.

#include <span>

#include "scheduler/problem.h"

namespace braid::scheduler {

struct Block {
  Problem problem;
  std::vector<NodeId> origin;  ///< per node: the node of the whole step, or kNoNode for `rest_of_step`
};

/// What stands in a block for the nodes between two of its parts, as for all layers between a block's forward and
/// backward pass: a node `rest_of_step` that takes no time.
inline constexpr std::string_view kRestOfStep = "rest_of_step";

/// The given nodes (ascending) of a step, on the same machine. What they read from outside becomes an input, or the
/// result of `rest_of_step` if it depends on the block itself; what is read outside is kept.
Block extract_block(const Problem& step, std::span<const NodeId> nodes);

}  // namespace braid::scheduler
