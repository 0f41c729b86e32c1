#pragma once
// A graph that computes the same as a recorded one, with other nodes.

#include <vector>

#include "core/graph/step_graph.h"

namespace braid::ops {

struct RewrittenGraph {
  StepGraph graph;
  std::vector<ValueId> values = {};   ///< recorded value → the same value here, or kNoValue; empty: all as recorded
  std::vector<NodeId> recorded = {};  ///< node here → the recorded node whose outputs it has; empty: all as recorded

  ValueId value(ValueId of) const { return values.empty() ? of : values[static_cast<std::size_t>(of)]; }
  NodeId recorded_node(NodeId node) const { return recorded.empty() ? node : recorded[static_cast<std::size_t>(node)]; }
};

/// The second rewrite after the first.
RewrittenGraph composed(const RewrittenGraph& first, RewrittenGraph second);

}  // namespace braid::ops
