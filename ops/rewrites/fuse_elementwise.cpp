#include <algorithm>
#include <optional>

#include "ops/elementwise/expression_program.h"
#include "ops/rewrites/fuse.h"

namespace braid::ops {

namespace {

/// An expression of recorded values.
struct Chain {
  Expression expression;
  std::vector<ValueId> inputs;
};

const Elementwise* as_elementwise(const Op& op) { return dynamic_cast<const Elementwise*>(&op); }

/// The outer expression with the inner one in place of the value; empty if that is too long.
std::optional<Chain> composed(const Chain& outer, ValueId value, const Chain& inner) {
  const std::size_t instructions = outer.expression.instructions.size() + inner.expression.instructions.size();
  const std::size_t constants = outer.expression.constants.size() + inner.expression.constants.size();
  if (instructions > Expression::kMaxInstructions || constants > Expression::kMaxConstants) return {};
  std::vector<ValueId> inputs = inner.inputs;
  for (const ValueId input : outer.inputs) {
    if (input != value && std::ranges::count(inputs, input) == 0) inputs.push_back(input);
  }
  if (inputs.size() > Expression::kMaxInputs) return {};

  ExpressionBuilder builder;
  const auto input_term = [&](ValueId input) {
    return builder.input(static_cast<std::size_t>(std::ranges::find(inputs, input) - inputs.begin()));
  };
  /// Adds the instructions of a chain and returns the value of its expression.
  const auto add = [&](const Chain& chain, const auto& term_of) {
    std::vector<Term> results;
    const auto term = [&](std::uint8_t operand) {
      if (operand < Expression::kFirstConstant) return term_of(chain.inputs[operand]);
      if (operand >= Expression::kFirstResult) return results[operand - std::size_t{Expression::kFirstResult}];
      return builder.constant(chain.expression.constants[operand - std::size_t{Expression::kFirstConstant}]);
    };
    for (const Instruction& instruction : chain.expression.instructions) {
      const Term a = term(instruction.a), b = term(instruction.b);
      results.push_back(builder.apply(instruction.function, a, b));
    }
    return term(chain.expression.result());
  };
  const Term inner_value = add(inner, input_term);
  const Term outer_value = add(outer, [&](ValueId input) { return input == value ? inner_value : input_term(input); });
  InlineList<std::uint8_t, Expression::kMaxInputs> used;
  Chain result{builder.finish(outer_value, used), {}};
  for (const std::uint8_t i : used) result.inputs.push_back(inputs[i]);
  if (!ExpressionProgram::fits(result.expression)) return {};
  return result;
}

class Fusion {
 public:
  explicit Fusion(const StepGraph& graph)
      : graph_(graph),
        readers_(graph.value_count()),
        overwriter_(overwriters(graph)),
        chains_(graph.node_count()),
        absorbed_(graph.node_count()),
        grown_(graph.node_count()) {
    for (const Node& node : graph.nodes()) {
      for (const ValueId input : graph.inputs(node)) ++readers_[input];
    }
  }

  /// Whether anything was fused.
  bool find() {
    bool any = false;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const Elementwise* op = as_elementwise(*graph_.node(id).op);
      if (op == nullptr) continue;
      const auto inputs = graph_.inputs(id);
      chains_[id] = {op->attributes().expression, {inputs.begin(), inputs.end()}};
      // The first operand's instructions come first: then a chain of operators needs the fewest results at a time.
      for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) any |= absorb(id, *input);
    }
    return any;
  }

  RewrittenGraph rewrite() {
    GraphCopy copy(graph_);
    copy.in_order([&](NodeId id) {
      if (absorbed_[id]) return kNoValue;
      if (!grown_[id]) return copy.add_node(id);
      const Chain& chain = chains_[id];
      const Shape& shape = graph_.value(graph_.output(id, 0)).desc.shape;
      return copy.add_node(id, copy.values(chain.inputs), std::make_shared<Elementwise>(chain.expression, shape));
    });
    return copy.finish();
  }

 private:
  /// Fuses the node of an input into this one.
  bool absorb(NodeId id, ValueId input) {
    const Value &value = graph_.value(input), &output = graph_.value(graph_.output(id, 0));
    const NodeId producer = value.producer;
    if (producer == kNoNode || as_elementwise(*graph_.node(producer).op) == nullptr) return false;
    if (graph_.node(producer).stage != graph_.node(id).stage) return false;
    const auto orders_it = [&](const auto& order) { return order.first == producer || order.second == producer; };
    if (std::ranges::any_of(graph_.orders(), orders_it)) return false;
    if (readers_[input] != 1 || value.kept || value.root != input || value.slot >= 0) return false;
    if (value.kind != output.kind || value.recomputed != output.recomputed) return false;
    if (value.desc != output.desc || computed_in(value.desc.dtype) != value.desc.dtype) return false;
    const Chain& inner = chains_[producer];
    // Its inputs are then read later: they must not be overwritten before that.
    const auto overwritten = [&](ValueId read) {
      const NodeId by = overwriter_[graph_.value(read).root];
      return by != kNoNode && by < id;
    };
    if (std::ranges::any_of(inner.inputs, overwritten)) return false;
    std::optional<Chain> longer = composed(chains_[id], input, inner);
    if (!longer.has_value()) return false;
    chains_[id] = std::move(*longer);
    absorbed_[producer] = grown_[id] = true;
    return true;
  }

  const StepGraph& graph_;
  std::vector<std::int32_t> readers_;  // per value
  std::vector<NodeId> overwriter_;     // per value: the node that writes its next version
  std::vector<Chain> chains_;          // per elementwise node
  std::vector<bool> absorbed_;         // per node: it is part of another
  std::vector<bool> grown_;            // per node: others are part of it
};

}  // namespace

RewrittenGraph fuse_elementwise(StepGraph graph) {
  Fusion fusion(graph);
  if (!fusion.find()) return {std::move(graph)};
  return fusion.rewrite();
}

}  // namespace braid::ops
