#pragma once
// Random graphs for randomly wired networks (Xie et al., 2019, section 3).

#include <vector>

#include "core/base/random.h"

namespace braid::models {

/// A directed acyclic graph: every edge goes from a smaller node to a larger one.
struct RandomGraph {
  std::vector<std::vector<int>> inputs;  ///< per node, ascending
  int nodes() const { return static_cast<int>(inputs.size()); }
  /// Nodes that no edge leaves.
  std::vector<int> outputs() const;
};

/// WS(neighbours, probability) of Watts and Strogatz (1998): a ring in which each node is joined to its `neighbours`
/// nearest (an even number), then each edge gets another end with the given probability. Drawn again until the graph is
/// in one piece; then edges are directed by the nodes' order on the ring. Throws Error unless neighbours is even and
/// 2 ≤ neighbours < nodes.
RandomGraph watts_strogatz(int nodes, int neighbours, double probability, Generator generator);

}  // namespace braid::models
