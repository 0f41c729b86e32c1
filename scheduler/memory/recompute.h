#pragma once
// Trades time for memory: an activation that the backward pass reads long after the forward pass made it need not be
// kept if it is cheap to recompute (Chen et al., "Training deep nets with sublinear memory cost", 2016, section 3). The
// node that made it runs again just before the first backward node that reads it, with the same kernel on the same
// inputs: results keep their bits.

#include "core/graph/step_graph.h"

namespace braid::scheduler {

/// A step graph with recomputed values, and how it corresponds to the one that was recorded.
struct Recomputation {
  StepGraph graph;
  std::vector<ValueId> values;   ///< recorded value → the same value here, as computed first
  std::vector<ValueId> copies;   ///< recorded value → the same value as recomputed; kNoValue if it is not
  std::vector<NodeId> nodes;     ///< recorded node → the same node here
  std::vector<NodeId> recorded;  ///< node here → the recorded node that it is, or recomputes

  bool is_repeated(NodeId node) const {
    return nodes[static_cast<std::size_t>(recorded[static_cast<std::size_t>(node)])] != node;
  }
  std::int32_t repeated_nodes() const { return graph.node_count() - static_cast<std::int32_t>(nodes.size()); }
};

/// Whether a node belongs to a backward pass.
bool is_backward(const StepGraph& graph, NodeId node);

/// Whether recompute() takes a value: an activation that owns its bytes and is not kept, made by a node of the forward
/// pass whose op says how to recompute it (Op::repeat), or has no effect but its outputs.
bool can_recompute(const StepGraph& graph, ValueId value);
/// Whether recomputing it is also cheap: the op says how.
bool is_cheap_to_recompute(const StepGraph& graph, ValueId value);
/// The values that are marked as `recomputed` in the graph and can be.
std::vector<ValueId> marked_values(const StepGraph& graph);

/// The values that a node reads when it is recomputed.
std::vector<ValueId> inputs_of_repeat(const StepGraph& graph, NodeId node);

/// The graph with these values recomputed for their backward readers. A recomputed node reads the first computation of
/// its inputs, which live until then, or the second one of inputs that are among the values. Throws Error if a value
/// cannot be recomputed, ShapeError if a recomputed node would read a parameter that has been overwritten by then.
Recomputation recompute(const StepGraph& graph, std::span<const ValueId> values);

}  // namespace braid::scheduler
