#include "ops/rewrites/recompute.h"

#include <algorithm>

#include "ops/batch_norm.h"

namespace braid {
namespace {

constexpr std::string_view kCheap[] = {
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "batch_norm_inference",
    "cast",
    "concat",
    "dropout",
    "global_avg_pool",
    "max_pool2d",
    "relu",
    "relu6",
    "scale",
    "scale_by",
    "sum",
    "weighted_sum",
};
static_assert(std::ranges::is_sorted(kCheap));

const ops::BatchNorm* as_batch_norm(const Op& op) { return dynamic_cast<const ops::BatchNorm*>(&op); }

/// Rebuilds a graph node by node, and repeats what backward nodes are to read anew.
class Rewriter {
 public:
  Rewriter(const StepGraph& graph, std::span<const ValueId> values)
      : graph_(graph), chosen_(static_cast<std::size_t>(graph.value_count())) {
    for (const ValueId value : values) {
      BRAID_CHECK(can_recompute(graph, value), Error, "[recompute] value ", value, " of shape ",
                  graph.value(value).desc.shape, " cannot be recomputed");
      chosen_[index(value)] = true;
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
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  ValueId first(ValueId value) const { return result_.values[index(value)]; }

  /// Inputs and persistent tensors recorded before value `end`.
  void add_sources(ValueId end) {
    for (; next_ < end; ++next_) {
      const Value& value = graph_.value(next_);
      result_.values[index(next_)] = value.slot < 0 ? result_.graph.add_input(value.desc)
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
    for (int i = 0; i < node.output_count; ++i) result_.values[index(next_++)] = output + i;
    result_.nodes.push_back(result_.graph.node_count() - 1);
    result_.recorded.push_back(id);
  }

  /// The last node here that makes a gradient for a recorded backward node. What is repeated for that node runs after
  /// it: otherwise nothing would keep a scheduler from repeating it in the forward pass.
  NodeId latest_gradient(NodeId reader) const {
    NodeId latest = kNoNode;
    for (const ValueId input : graph_.inputs(reader)) {
      if (graph_.value(input).kind != ValueKind::gradient) continue;
      latest = std::max(latest, result_.graph.value(result_.graph.value(first(input)).root).producer);
    }
    return latest;
  }

  /// The value as backward nodes read it. Repeats its node, and those of its inputs, the first time.
  ValueId newest(ValueId value, NodeId after) {
    if (!chosen_[index(graph_.value(value).root)]) return first(value);
    ValueId& copy = result_.copies[index(value)];
    if (copy != kNoValue) return copy;
    const NodeId id = graph_.value(value).producer;
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : inputs_of_repeat(graph_, id)) inputs.push_back(newest(input, after));
    const ops::BatchNorm* norm = as_batch_norm(*node.op);
    const OpPtr op = norm == nullptr ? node.op : std::make_shared<ops::BatchNormApply>(norm->options());
    const ValueId output = result_.graph.add_node(op, inputs, graph_.value(value).kind);
    result_.recorded.push_back(id);
    if (after != kNoNode && !node.is_view) result_.graph.run_after(result_.graph.node_count() - 1, after);
    const int outputs = norm == nullptr ? node.output_count : 1;
    for (int i = 0; i < outputs; ++i) result_.copies[index(node.first_output + i)] = output + i;
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
  const Op& op = *graph.node(value.producer).op;
  if (value.kind != ValueKind::activation || !std::ranges::binary_search(kCheap, op.name())) return false;
  return as_batch_norm(op) == nullptr || id == graph.output(value.producer, 0);  // never its statistics
}

std::vector<ValueId> inputs_of_repeat(const StepGraph& graph, NodeId node) {
  const auto inputs = graph.inputs(node);
  std::vector<ValueId> list(inputs.begin(), inputs.end());
  if (as_batch_norm(*graph.node(node).op) != nullptr) {
    list[3] = graph.output(node, 1);
    list[4] = graph.output(node, 2);
  }
  return list;
}

Recomputation recompute(const StepGraph& graph, std::span<const ValueId> values) {
  return Rewriter(graph, values).run();
}

}  // namespace braid
