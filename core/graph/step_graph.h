#pragma once
// The step graph: nodes and values of one training step in recording order, which is a topological order. Recording is
// the hot path of every step, so nodes and values live in flat arrays, and edges are derived only when planning.

#include <span>
#include <vector>

#include "core/graph/op.h"

namespace braid {

enum class ValueKind : std::uint8_t { input, parameter, state, activation, gradient };

std::string_view name_of(ValueKind kind);

/// One version of a tensor. Values are written once; an update of a parameter makes a new value with the same slot.
struct Value {
  ValueDesc desc;
  ValueKind kind = ValueKind::activation;
  bool recomputed = false;  ///< recomputed for the backward pass instead of kept until then, if possible
  bool kept = false;        ///< readable after the step, so its bytes are never reused
  /// What every rank has of an input or persistent tensor: all of it, its rows (split) or its piece.
  Layouts layouts = {};
  NodeId producer = kNoNode;    ///< kNoNode for inputs and for first versions of persistent tensors
  ValueId root = kNoValue;      ///< the value that owns the bytes: itself, unless this is a view
  ValueId previous = kNoValue;  ///< the version that this one overwrites
  ValueId reuses = kNoValue;    ///< root of the input whose bytes the producer may write this value over
  std::int32_t slot = -1;       ///< index of the persistent tensor that holds the bytes; -1: planned into the arena

  std::uint64_t bytes() const { return desc.bytes(); }
  friend bool operator==(const Value&, const Value&) = default;
};

/// One op applied to values.
struct Node {
  OpPtr op;
  std::int32_t first_operand = 0;  ///< inputs are operands [first_operand, first_operand + input_count)
  std::int32_t input_count = 0;
  ValueId first_output = kNoValue;  ///< outputs are values [first_output, first_output + output_count)
  std::int32_t output_count = 0;
  /// The name of the axis along which it is divided over ranks (Op::axes), if all its values divide evenly; '_' for
  /// none, 0 for that along which its inputs are split.
  PerMeshAxis<char> axes = {};
  /// The stage of a pipeline that runs it, and the shard that it computes a part of; kNoShard: more than one, or none.
  std::int16_t stage = 0, shard = kNoShard;
  bool is_view = false;  ///< does nothing: its only output is a view

  static constexpr std::int16_t kNoShard = -1;
};

/// Predecessors and successors of every node, each list sorted and without duplicates.
struct Edges {
  std::vector<std::int32_t> predecessor_begin, successor_begin;  // node -> first index; one extra at the end
  std::vector<NodeId> predecessor, successor;

  /// Makes edges from the predecessors of every node, sorted and without duplicates.
  static Edges from_predecessors(std::span<const std::vector<NodeId>> predecessors);

  std::int32_t node_count() const { return static_cast<std::int32_t>(predecessor_begin.size()) - 1; }
  std::span<const NodeId> predecessors(NodeId node) const { return slice(predecessor_begin, predecessor, node); }
  std::span<const NodeId> successors(NodeId node) const { return slice(successor_begin, successor, node); }

 private:
  static std::span<const NodeId> slice(const std::vector<std::int32_t>& begin, const std::vector<NodeId>& list,
                                       NodeId node) {
    const auto i = static_cast<std::size_t>(node);
    return std::span(list).subspan(static_cast<std::size_t>(begin[i]),
                                   static_cast<std::size_t>(begin[i + 1] - begin[i]));
  }
};

class StepGraph {
 public:
  /// A value whose bytes the host provides before every run. If it is split, a host provides the rows of its rank.
  ValueId add_input(const ValueDesc& desc, Layout layout = Layout::replicated) {
    return add_source({.desc = desc, .kind = ValueKind::input, .layouts = on_all_axes(layout)});
  }
  /// The first version of the persistent tensor `slot`. Kind is parameter or state.
  ValueId add_persistent(const ValueDesc& desc, ValueKind kind, std::int32_t slot, const Layouts& layouts = {}) {
    return add_source({.desc = desc, .kind = kind, .layouts = layouts, .slot = slot});
  }
  /// An input, or a persistent tensor if it has a slot, with the properties of this value; but not yet kept.
  ValueId add_source(Value value);
  /// Applies an op. Returns its first output; further outputs follow with consecutive ids. Throws ShapeError, also if
  /// an op would overwrite a value that is not the newest version of a persistent tensor.
  ValueId add_node(OpPtr op, std::span<const ValueId> inputs, ValueKind kind = ValueKind::activation);
  ValueId add_node(OpPtr op, std::initializer_list<ValueId> inputs, ValueKind kind = ValueKind::activation) {
    return add_node(std::move(op), std::span(inputs.begin(), inputs.size()), kind);
  }
  /// Sets Node::axes.
  void divide_along(NodeId node, const PerMeshAxis<char>& axes);
  /// Sets Node::stage and Node::shard.
  void assign(NodeId node, std::int16_t stage, std::int16_t shard);
  /// Orders a node after an earlier one although no data dependency does.
  void run_after(NodeId node, NodeId earlier);
  /// Makes a value readable after the step. Throws ShapeError if it has been overwritten.
  void keep(ValueId value);
  /// Marks an activation as `recomputed`.
  void recompute(ValueId value);
  /// Whether the bytes of a parameter or state hold a later version at the end of the step.
  bool is_overwritten(ValueId id) const { return superseded_[static_cast<std::size_t>(value(id).root)]; }
  void clear() { return_to({}); }
  /// A point of the recording to return to.
  struct Mark {
    std::size_t nodes, values, operands, orders;
    Hash hash;
  };
  Mark mark() const { return {nodes_.size(), values_.size(), operands_.size(), orders_.size(), hash_}; }
  /// Forgets what was recorded since the mark; nothing may have been kept since.
  void return_to(const Mark& mark);

  std::int32_t node_count() const { return static_cast<std::int32_t>(nodes_.size()); }
  std::int32_t value_count() const { return static_cast<std::int32_t>(values_.size()); }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  /// The value that the versions up to this one overwrite.
  ValueId first_version(ValueId id) const {
    while (value(id).previous != kNoValue) id = value(id).previous;
    return id;
  }
  std::span<const Node> nodes() const { return nodes_; }
  /// The nodes that are launched: all but views, in recording order.
  std::vector<NodeId> launched_nodes() const;
  std::span<const Value> values() const { return values_; }
  std::span<const ValueId> inputs(const Node& node) const {
    return std::span(operands_).subspan(static_cast<std::size_t>(node.first_operand),
                                        static_cast<std::size_t>(node.input_count));
  }
  std::span<const ValueId> inputs(NodeId id) const { return inputs(node(id)); }
  std::span<const Value> outputs(const Node& node) const {
    return values().subspan(static_cast<std::size_t>(node.first_output), static_cast<std::size_t>(node.output_count));
  }
  /// Output ids are consecutive: [first_output, first_output + output_count).
  ValueId output(NodeId id, int i) const { return node(id).first_output + i; }
  std::vector<ValueDesc> input_descs(NodeId id) const;
  std::vector<ValueDesc> output_descs(NodeId id) const;
  /// What run_after was told: (node, earlier).
  std::span<const std::pair<NodeId, NodeId>> orders() const { return orders_; }
  /// How the ranks run a node together.
  Communication communication(NodeId id) const;
  bool communicates(NodeId id) const { return !communication(id).empty(); }

  /// Equal for steps that can share a plan: same ops, attributes, shapes, connections, slots and kept values.
  const Hash& hash() const { return hash_; }
  /// Whether a plan of this graph is also valid for the other: nodes and values are equal, one by one and in every
  /// property, but for values that are kept here alone.
  bool covers(const StepGraph& other) const;

  /// Data edges (reader after writer), anti-dependencies (the next version of a persistent tensor is written only after
  /// the last reader of the previous one), and orders given to run_after. Edges look through views, which have none
  /// themselves.
  Edges edges() const;

 private:
  ValueId add_value(const Value& value);
  void check_overwrites(const Op& op, std::span<const ValueId> inputs, std::span<const OutputDesc> outputs) const;

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<ValueId> operands_;
  std::vector<std::pair<NodeId, NodeId>> orders_;  // (node, earlier)
  std::vector<bool> superseded_;                   // per value: a later version of its slot exists
  Hash hash_;
  std::vector<ValueDesc> infer_inputs_;  // scratch, kept to avoid allocation while recording
  std::vector<OutputDesc> infer_outputs_;
};

/// Per value: the node that writes its next version, or kNoNode.
std::vector<NodeId> overwriters(const StepGraph& graph);

}  // namespace braid
