#pragma once
// Extracts a part of a step as a separate step, small enough to read node by node.

#include <span>

#include "scheduler/problem.h"

namespace braid::scheduler {

struct Block {
  Problem problem;
  std::vector<NodeId> origin;  ///< per node: the node of the whole step, or kNoNode for `rest_of_step`
};

/// The op that replaces the nodes between two parts of a block, such as all layers between its forward and backward
/// pass: it takes no time.
inline constexpr std::string_view kRestOfStep = "rest_of_step";

/// The given nodes (ascending) of a step, on the same machine. What they read from outside becomes an input, or the
/// result of `rest_of_step` if it depends on the block itself; what is read outside is kept.
Block extract_block(const Problem& step, std::span<const NodeId> nodes);

}  // namespace braid::scheduler
