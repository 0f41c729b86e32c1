#include <algorithm>

#include "ops/conv/cpu_algorithm.h"
#include "ops/conv/normalized_conv2d.h"
#include "ops/rewrites/fuse.h"

namespace braid::ops {

namespace {

class NormalizationFusion {
 public:
  NormalizationFusion(const StepGraph& graph, bool direct)
      : graph_(graph),
        direct_(direct),
        readers_(graph.value_count()),
        overwriter_(overwriters(graph)),
        norm_(graph.node_count(), kNoNode) {
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      for (const ValueId input : graph.inputs(id)) readers_[graph.value(input).root].push_back(id);
    }
  }

  /// Whether anything can be fused.
  bool find() {
    bool any = false;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (!fits(id)) continue;
      norm_[id] = id;
      for (const NodeId reader : readers_[graph_.output(id, 0)]) norm_[reader] = id;
      any = true;
    }
    return any;
  }

  RewrittenGraph rewrite() {
    GraphCopy copy(graph_);
    copy.in_order([&](NodeId id) {
      const NodeId norm = norm_[id];
      if (norm == kNoNode) {
        copy.add_node(id);
      } else if (norm == id) {
        const BatchNormOptions& options = norm_options(id);
        const auto inputs = graph_.inputs(id);
        const ValueId first =
            copy.add(std::make_shared<BatchNormStatistics>(options.epsilon, options.momentum),
                     copy.values(std::vector{inputs[0], inputs[3], inputs[4]}), ValueKind::activation, id);
        for (int i = 1; i < graph_.node(id).output_count; ++i) copy.set_value(graph_.output(id, i), first + i - 1);
      } else {
        copy.add_node(id, copy.values(normalized_inputs(id, norm)), normalized_op(id, norm));
      }
    });
    return copy.finish();
  }

 private:
  const BatchNormOptions& norm_options(NodeId norm) const {
    return static_cast<const BatchNorm&>(*graph_.node(norm).op).attributes();
  }

  bool fits(NodeId id) const {
    const auto* norm = dynamic_cast<const BatchNorm*>(graph_.node(id).op.get());
    if (norm == nullptr || norm->attributes().add) return false;
    const ValueId y = graph_.output(id, 0);
    if (graph_.value(y).kept) return false;
    const std::vector<NodeId>& readers = readers_[y];
    return !readers.empty() && std::ranges::all_of(readers, [&](NodeId reader) { return can_normalize(reader, id); });
  }

  /// Whether a node reads y only as what it convolves, and can normalise as it reads.
  bool can_normalize(NodeId reader, NodeId norm) const {
    const OpPtr op = normalized_op(reader, norm);
    const auto inputs = graph_.inputs(reader);
    const ValueId y = graph_.output(norm, 0);
    if (op == nullptr || inputs[0] != y || std::ranges::count(inputs, y) != 1) return false;
    if (graph_.node(reader).stage != graph_.node(norm).stage) return false;
    std::vector<ValueDesc> descs;
    for (const ValueId input : normalized_inputs(reader, norm)) {
      const NodeId by = overwriter_[graph_.value(input).root];
      if (by != kNoNode && by < reader) return false;  // γ or β would be read too late
      descs.push_back(graph_.value(input).desc);
    }
    return normalizes_on_load({.op = *op, .inputs = descs, .outputs = graph_.output_descs(reader), .direct = direct_});
  }

  /// The op that takes a reader's place; null if there is none.
  OpPtr normalized_op(NodeId reader, NodeId norm) const {
    const Op& op = *graph_.node(reader).op;
    const Activation activation = norm_options(norm).activation;
    if (const auto* conv = dynamic_cast<const Conv2d*>(&op)) {
      return std::make_shared<NormalizedConv2d>(conv->attributes(), activation);
    }
    if (const auto* gradient = dynamic_cast<const Conv2dBackwardFilter*>(&op)) {
      return std::make_shared<NormalizedConv2dBackwardFilter>(gradient->attributes(), activation);
    }
    return nullptr;
  }

  std::vector<ValueId> normalized_inputs(NodeId reader, NodeId norm) const {
    const auto of_norm = graph_.inputs(norm), of_reader = graph_.inputs(reader);
    std::vector<ValueId> inputs{of_norm[0], of_norm[1], of_norm[2], graph_.output(norm, 1), graph_.output(norm, 2)};
    inputs.insert(inputs.end(), of_reader.begin() + 1, of_reader.end());
    return inputs;
  }

  const StepGraph& graph_;
  bool direct_;
  std::vector<std::vector<NodeId>> readers_;  // per value that owns bytes
  std::vector<NodeId> overwriter_;            // per value: the node that writes its next version
  std::vector<NodeId> norm_;                  // per node: the fused batch norm that it is or reads
};

}  // namespace

RewrittenGraph fuse_normalization(StepGraph graph, bool direct) {
  NormalizationFusion fusion(graph, direct);
  if (!fusion.find()) return {std::move(graph)};
  return fusion.rewrite();
}

}  // namespace braid::ops
