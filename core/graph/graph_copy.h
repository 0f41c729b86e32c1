#pragma once
// A rewrite is a function from a step graph to a RewrittenGraph, written with a GraphCopy: it adds the nodes that it
// changes itself and copies the others. No rewrite copies a value by hand, so none can lose a property of one.

#include <functional>
#include <vector>

#include "core/graph/step_graph.h"

namespace braid {

/// A graph made from a recorded one.
struct RewrittenGraph {
  StepGraph graph;
  std::vector<ValueId> values = {};  ///< recorded value → the same value here, or kNoValue; empty: all as recorded
  std::vector<NodeId> nodes = {};  ///< node here → the recorded node that it is made of, or kNoNode; empty: likewise

  ValueId value(ValueId of) const { return values.empty() ? of : values[static_cast<std::size_t>(of)]; }
  NodeId recorded_node(NodeId node) const { return nodes.empty() ? node : nodes[static_cast<std::size_t>(node)]; }
  /// Recorded node → the first node here that is made of it, or kNoNode.
  std::vector<NodeId> first_nodes() const;
};

/// The second rewrite after the first.
RewrittenGraph composed(const RewrittenGraph& first, RewrittenGraph second);

class GraphCopy {
 public:
  /// The recorded graph must outlive the copy.
  explicit GraphCopy(const StepGraph& recorded);

  /// What has been added so far.
  StepGraph& graph() { return result_.graph; }
  /// What stands for a recorded value so far; kNoValue: nothing.
  ValueId value(ValueId recorded) const { return result_.values[static_cast<std::size_t>(recorded)]; }
  std::vector<ValueId> values(std::span<const ValueId> recorded) const;
  /// The nodes that are added from now on compute a part of this shard (Node::shard).
  void set_shard(std::int16_t shard) { shard_ = shard; }
  void set_value(ValueId recorded, ValueId here) { result_.values[static_cast<std::size_t>(recorded)] = here; }

  /// Calls add_node for every recorded node, and add_source for every input and first version of a persistent tensor,
  /// in recording order. By default, sources are copied.
  void in_order(const std::function<void(NodeId)>& add_node, const std::function<void(ValueId)>& add_source = {});

  /// Adds a value that no node here makes: as recorded, or with changes.
  ValueId add_source(ValueId recorded) { return add_source(recorded, recorded_.value(recorded)); }
  ValueId add_source(ValueId recorded, const Value& changed);
  /// Adds a recorded node, with other inputs (values here) and another op if these are given. Returns its first output.
  ValueId add_node(NodeId recorded);
  ValueId add_node(NodeId recorded, const std::vector<ValueId>& inputs, OpPtr op = nullptr);
  /// Adds a node that was not recorded itself, but is made of a recorded one or of kNoNode.
  ValueId add(OpPtr op, const std::vector<ValueId>& inputs, ValueKind kind, NodeId made_of);

  /// The graph with what is kept in the recorded one, and the orders of its nodes.
  RewrittenGraph finish();

 private:
  const StepGraph& recorded_;
  RewrittenGraph result_;
  std::int16_t shard_ = Node::kNoShard;
};

}  // namespace braid
