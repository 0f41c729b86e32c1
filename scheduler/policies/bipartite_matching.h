#pragma once
// Which edges of a graph can be used at once if every node is left and entered at most once.

#include <vector>

#include "core/graph/step_graph.h"

namespace braid::scheduler {

/// A largest set of edges of which no two leave, and no two enter, the same node: for every node the head of the edge
/// that leaves it, or kNoNode. In an acyclic graph these edges form the fewest paths that cover all nodes, each once.
/// Hopcroft and Karp, "An n^5/2 algorithm for maximum matchings in bipartite graphs" (1973).
std::vector<NodeId> maximum_matching(const Edges& edges);

}  // namespace braid::scheduler
