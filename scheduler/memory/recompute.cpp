#include "scheduler/memory/recompute.h"

#include <algorithm>

namespace braid::scheduler {
namespace {

/// Copies a graph, and adds the nodes that recompute values for the backward pass.
class Recomputation {
 public:
  Recomputation(const StepGraph& graph, std::span<const ValueId> values)
      : graph_(graph), chosen_(graph.value_count()), repeated_(graph.value_count(), kNoValue), copy_(graph) {
    for (const ValueId value : values) {
      BRAID_CHECK(can_recompute(graph, value), Error, "[recompute] value ", value, " of shape ",
                  graph.value(value).desc.shape, " cannot be recomputed");
      chosen_[value] = true;
    }
  }

  RewrittenGraph run() {
    copy_.in_order([this](NodeId id) {
      if (!is_backward(graph_, id)) return copy_.add_node(id);
      std::vector<ValueId> inputs;
      for (const ValueId input : graph_.inputs(id)) inputs.push_back(newest(input, latest_gradient(id)));
      return copy_.add_node(id, inputs);
    });
    return copy_.finish();
  }

 private:
  /// The last node here that makes a gradient for a recorded backward node. What is recomputed for that node runs
  /// after it: otherwise nothing would keep a scheduler from recomputing it in the forward pass.
  NodeId latest_gradient(NodeId reader) {
    NodeId latest = kNoNode;
    for (const ValueId input : graph_.inputs(reader)) {
      const Value& here = copy_.graph().value(copy_.value(input));
      if (here.kind == ValueKind::gradient) latest = std::max(latest, copy_.graph().value(here.root).producer);
    }
    return latest;
  }

  /// The value as backward nodes read it. The first call adds the nodes that recompute it, and its inputs.
  ValueId newest(ValueId value, NodeId after) {
    if (!chosen_[graph_.value(value).root]) return copy_.value(value);
    ValueId& repeated = repeated_[value];
    if (repeated != kNoValue) return repeated;
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : inputs_of_repeat(graph_, id)) inputs.push_back(newest(input, after));
    const std::optional<Repeat> repeat = node.op->repeat();
    const bool other = repeat.has_value() && repeat->op != nullptr;
    const ValueId output = copy_.add(other ? repeat->op : node.op, inputs, graph_.value(value).kind, id);
    StepGraph& graph = copy_.graph();
    if (after != kNoNode && !node.is_view) graph.run_after(graph.node_count() - 1, after);
    const int outputs = graph.nodes().back().output_count;
    for (int i = 0; i < outputs; ++i) repeated_[node.first_output + i] = output + i;
    return repeated;
  }

  const StepGraph& graph_;
  std::vector<bool> chosen_;       // per value
  std::vector<ValueId> repeated_;  // per value: the same as recomputed; kNoValue if it is not
  GraphCopy copy_;
};

}  // namespace

bool is_backward(const StepGraph& graph, NodeId node) {
  return graph.node(node).output_count > 0 && graph.value(graph.output(node, 0)).kind == ValueKind::gradient;
}

bool can_recompute(const StepGraph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.producer == kNoNode || value.root != id || value.slot >= 0 || value.kept) return false;
  if (value.kind != ValueKind::activation) return false;
  const Node& node = graph.node(value.producer);
  if (const std::optional<Repeat> repeat = node.op->repeat()) return id - node.first_output < repeat->outputs;
  for (int i = 0; i < node.output_count; ++i) {
    if (graph.value(node.first_output + i).previous != kNoValue) return false;
  }
  return true;
}

bool is_cheap_to_recompute(const StepGraph& graph, ValueId id) {
  return can_recompute(graph, id) && graph.node(graph.value(id).producer).op->repeat().has_value();
}

std::vector<ValueId> marked_values(const StepGraph& graph) {
  std::vector<ValueId> marked;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).recomputed && can_recompute(graph, id)) marked.push_back(id);
  }
  return marked;
}

std::vector<ValueId> inputs_of_repeat(const StepGraph& graph, NodeId node) {
  const auto inputs = graph.inputs(node);
  std::vector<ValueId> list(inputs.begin(), inputs.end());
  if (const std::optional<Repeat> repeat = graph.node(node).op->repeat(); repeat.has_value()) {
    for (const auto& [input, output] : repeat->inputs_from_outputs) list[input] = graph.output(node, output);
  }
  return list;
}

RewrittenGraph recompute(const StepGraph& graph, std::span<const ValueId> values) {
  return Recomputation(graph, values).run();
}

}  // namespace braid::scheduler
