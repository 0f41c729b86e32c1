#include "core/graph/graph_copy.h"

#include <algorithm>
#include <utility>

namespace braid {

std::vector<NodeId> RewrittenGraph::first_nodes() const {
  std::vector<NodeId> first;
  for (NodeId node = 0; node < graph.node_count(); ++node) {
    if (recorded_node(node) == kNoNode) continue;
    const auto recorded = static_cast<std::size_t>(recorded_node(node));
    if (recorded >= first.size()) first.resize(recorded + 1, kNoNode);
    if (first[recorded] == kNoNode) first[recorded] = node;
  }
  return first;
}

RewrittenGraph composed(const RewrittenGraph& first, RewrittenGraph second) {
  RewrittenGraph both{std::move(second.graph)};
  if (first.values.empty()) both.values = second.values;
  for (const ValueId value : first.values) both.values.push_back(value == kNoValue ? kNoValue : second.value(value));
  for (NodeId node = 0; node < both.graph.node_count(); ++node) {
    both.nodes.push_back(first.recorded_node(second.recorded_node(node)));
  }
  return both;
}

GraphCopy::GraphCopy(const StepGraph& recorded) : recorded_(recorded) {
  result_.values.assign(static_cast<std::size_t>(recorded.value_count()), kNoValue);
}

std::vector<ValueId> GraphCopy::values(std::span<const ValueId> recorded) const {
  std::vector<ValueId> here;
  for (const ValueId id : recorded) here.push_back(value(id));
  return here;
}

void GraphCopy::in_order(const std::function<void(NodeId)>& add_node, const std::function<void(ValueId)>& add_source) {
  ValueId next = 0;
  const auto add_sources = [&](ValueId end) {
    for (; next < end; ++next) add_source ? add_source(next) : static_cast<void>(this->add_source(next));
  };
  for (NodeId node = 0; node < recorded_.node_count(); ++node) {
    add_sources(recorded_.node(node).first_output);
    next += recorded_.node(node).output_count;
    add_node(node);
  }
  add_sources(recorded_.value_count());
}

ValueId GraphCopy::add_source(ValueId recorded, const Value& changed) {
  set_value(recorded, graph().add_source(changed));
  return value(recorded);
}

ValueId GraphCopy::add_node(NodeId recorded) { return add_node(recorded, values(recorded_.inputs(recorded))); }

ValueId GraphCopy::add_node(NodeId recorded, const std::vector<ValueId>& inputs, OpPtr op) {
  const Node& node = recorded_.node(recorded);
  const std::span<const Value> outputs = recorded_.outputs(node);
  // A new version has the kind of the one before; all other outputs have one kind.
  auto like = std::ranges::find(outputs, kNoValue, &Value::previous);
  if (like == outputs.end()) like = outputs.begin();
  const ValueKind kind = outputs.empty() ? ValueKind::activation : like->kind;
  const ValueId first = add(op == nullptr ? node.op : std::move(op), inputs, kind, recorded);
  if (node.axes != PerMeshAxis<char>{}) graph().divide_along(graph().node_count() - 1, node.axes);
  for (int i = 0; i < node.output_count; ++i) {
    set_value(node.first_output + i, first + i);
    if (outputs[static_cast<std::size_t>(i)].recomputed) graph().recompute(first + i);
  }
  return first;
}

ValueId GraphCopy::add(OpPtr op, const std::vector<ValueId>& inputs, ValueKind kind, NodeId made_of) {
  result_.nodes.push_back(made_of);
  const ValueId first = graph().add_node(std::move(op), inputs, kind);
  if (made_of != kNoNode) {
    const Node& its = recorded_.node(made_of);
    graph().assign(graph().node_count() - 1, its.stage, shard_ == Node::kNoShard ? its.shard : shard_);
  }
  return first;
}

RewrittenGraph GraphCopy::finish() {
  for (ValueId id = 0; id < recorded_.value_count(); ++id) {
    if (value(id) != kNoValue && recorded_.value(recorded_.value(id).root).kept) graph().keep(value(id));
  }
  const std::vector<NodeId> launched = graph().launched_nodes();
  for (const auto& [recorded, earlier] : recorded_.orders()) {
    for (const NodeId node : launched) {
      if (result_.recorded_node(node) != recorded) continue;
      for (const NodeId before : launched) {
        if (before < node && result_.recorded_node(before) == earlier) graph().run_after(node, before);
      }
    }
  }
  return std::move(result_);
}

}  // namespace braid
