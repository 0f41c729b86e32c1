#pragma once
// The same order with as few edges as possible.

#include "core/graph/step_graph.h"

namespace braid::scheduler {

/// The edges without those that a longer path implies. For an acyclic graph the result is unique (Aho, Garey and
/// Ullman, "The transitive reduction of a directed graph", 1972). Edges must lead from lower to higher nodes. Takes
/// time in proportion to nodes × edges / 64 and memory in proportion to the nodes.
Edges transitive_reduction(const Edges& edges);

}  // namespace braid::scheduler
