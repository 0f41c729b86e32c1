#include "scheduler/memory/recompute.h"

#include <algorithm>

namespace braid::scheduler {
namespace {

/// Rebuilds a graph node by node, and adds the nodes that recompute values for the backward pass.
class Rewriter {
 public:
  Rewriter(const StepGraph& graph, std::span<const ValueId> values)
      : graph_(graph), chosen_(static_cast<std::size_t>(graph.value_count())) {
    for (const ValueId value : values) {
      BRAID_CHECK(can_recompute(graph, value), Error, "[recompute] value ", value, " of shape ",
                  graph.value(value).desc.shape, " cannot be recomputed");
      chosen_[value] = true;
    }
    result_.values.assign(chosen_.size(), kNoValue);
    result_.copies.assign(chosen_.size(), kNoValue);
  }

  Recomputation run() {
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      add_sources(graph_.node(id).first_output);
      add(id);
    }
    add_sources(graph_.value_count());
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).kept) result_.graph.keep(first(id));
    }
    return std::move(result_);
  }

 private:
  ValueId first(ValueId value) const { return result_.values[value]; }

  /// Inputs and persistent tensors recorded before value `end`.
  void add_sources(ValueId end) {
    for (; next_ < end; ++next_) {
      const Value& value = graph_.value(next_);
      result_.values[next_] = value.slot < 0 ? result_.graph.add_input(value.desc)
                                             : result_.graph.add_persistent(value.desc, value.kind, value.slot);
    }
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const bool backward = is_backward(graph_, id);
    std::vector<ValueId> inputs;
    for (const ValueId input : graph_.inputs(id)) {
      inputs.push_back(backward ? newest(input, latest_gradient(id)) : first(input));
    }
    const ValueKind kind = node.output_count > 0 ? graph_.value(node.first_output).kind : ValueKind::activation;
    const ValueId output = result_.graph.add_node(node.op, inputs, kind);
    for (int i = 0; i < node.output_count; ++i) result_.values[next_++] = output + i;
    result_.nodes.push_back(result_.graph.node_count() - 1);
    result_.recorded.push_back(id);
  }

  /// The last node here that makes a gradient for a recorded backward node. What is recomputed for that node runs after
  /// it: otherwise nothing would keep a scheduler from recomputing it in the forward pass.
  NodeId latest_gradient(NodeId reader) const {
    NodeId latest = kNoNode;
    for (const ValueId input : graph_.inputs(reader)) {
      if (graph_.value(input).kind != ValueKind::gradient) continue;
      latest = std::max(latest, result_.graph.value(result_.graph.value(first(input)).root).producer);
    }
    return latest;
  }

  /// The value as backward nodes read it. The first call adds the nodes that recompute it, and its inputs.
  ValueId newest(ValueId value, NodeId after) {
    if (!chosen_[graph_.value(value).root]) return first(value);
    ValueId& copy = result_.copies[value];
    if (copy != kNoValue) return copy;
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : inputs_of_repeat(graph_, id)) inputs.push_back(newest(input, after));
    const std::optional<Repeat> repeat = node.op->repeat();
    const bool other = repeat.has_value() && repeat->op != nullptr;
    const ValueId output = result_.graph.add_node(other ? repeat->op : node.op, inputs, graph_.value(value).kind);
    result_.recorded.push_back(id);
    if (after != kNoNode && !node.is_view) result_.graph.run_after(result_.graph.node_count() - 1, after);
    const int outputs = result_.graph.nodes().back().output_count;
    for (int i = 0; i < outputs; ++i) result_.copies[node.first_output + i] = output + i;
    return copy;
  }

  const StepGraph& graph_;
  std::vector<bool> chosen_;  // per value
  ValueId next_ = 0;          // recorded values before it are in the result
  Recomputation result_;
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

Recomputation recompute(const StepGraph& graph, std::span<const ValueId> values) {
  return Rewriter(graph, values).run();
}

}  // namespace braid::scheduler
