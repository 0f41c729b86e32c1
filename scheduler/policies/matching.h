#pragma once
// The two steps of the policy `matching`.

#include <vector>

#include "core/graph/step_graph.h"

namespace braid::scheduler {

/// The edges without those that a longer path implies. For an acyclic graph the result is unique (Aho, Garey and
/// Ullman, "The transitive reduction of a directed graph", 1972). Edges must lead from lower to higher nodes. Takes
/// time in proportion to nodes × edges / 64 and memory in proportion to the nodes.
Edges transitive_reduction(const Edges& edges);

/// A largest set of edges of which no two leave, and no two enter, the same node: for every node the head of the edge
/// that leaves it, or kNoNode. In an acyclic graph these edges form the fewest paths that cover all nodes, each once.
/// Hopcroft and Karp, "An n^5/2 algorithm for maximum matchings in bipartite graphs" (1973).
std::vector<NodeId> maximum_matching(const Edges& edges);

}  // namespace braid::scheduler
