#include "core/graph/step_graph.h"

#include <algorithm>
#include <limits>

#include "core/base/text_stream.h"

namespace braid {

Work Op::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  Work work;
  for (const auto& list : {inputs, outputs}) {
    for (const ValueDesc& desc : list) work.bytes += static_cast<double>(desc.bytes());
  }
  return work;
}

void Op::gradient(GradientContext&) const {
  throw Error(
      message("[", name(), "] has no gradient: override Op::gradient, or record it while a braid::NoGrad lives"));
}

std::ostream& operator<<(std::ostream& out, const Op& op) {
  TextStream attributes;
  op.print_attributes(attributes, Notation::plain);
  out << op.name();
  return attributes.view() == "{}" ? out : out << attributes.view();
}

std::string_view name_of(ValueKind kind) {
  constexpr std::string_view kNames[] = {"input", "parameter", "state", "activation", "gradient"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

void add_to(Hash& hash, const ValueDesc& desc) {
  // One word for dtype and rank, where attribute::add_to would make two: this runs for every value of every step.
  hash.add(static_cast<std::uint64_t>(desc.dtype) * 16 + static_cast<std::uint64_t>(desc.shape.rank()));
  for (const std::int64_t extent : desc.shape.extents()) hash.add(extent);
}

}  // namespace

ValueId StepGraph::add_value(const Value& value) {
  BRAID_CHECK(values_.size() < std::numeric_limits<ValueId>::max(), Error, "[step graph] too many values in one step");
  values_.push_back(value);
  superseded_.push_back(false);
  return value_count() - 1;
}

ValueId StepGraph::add_source(Value value) {
  if (value.slot < 0) {
    hash_.add(1);
  } else {
    hash_.add(2).add(value.slot);
  }
  if (!is_replicated(value.layouts)) {
    hash_.add(7);
    for (const Layout layout : value.layouts) hash_.add(static_cast<int>(layout.kind));
  }
  add_to(hash_, value.desc);
  value.kept = false;
  value.producer = kNoNode;
  value.root = value_count();
  value.previous = value.reuses = kNoValue;
  const ValueId id = add_value(value);
  if (value.recomputed) recompute(id);
  return id;
}

ValueId StepGraph::add_node(OpPtr op, std::span<const ValueId> inputs, ValueKind kind) {
  infer_inputs_.clear();
  for (const ValueId input : inputs) infer_inputs_.push_back(value(input).desc);
  infer_outputs_.clear();
  op->infer(infer_inputs_, infer_outputs_);

  // All checks come before the first change, so that a rejected node leaves the graph unchanged.
  for (const ValueId input : inputs) {
    BRAID_CHECK(!is_overwritten(input), ShapeError, "[", op->name(), "] reads a parameter or state of shape ",
                value(input).desc.shape, " that was overwritten earlier in this step: use its newest version");
  }
  check_overwrites(*op, inputs, infer_outputs_);

  hash_.add(3).add(op->name());
  op->hash(hash_);
  hash_.add(static_cast<std::uint64_t>(inputs.size()));
  for (const ValueId input : inputs) hash_.add(input);

  Node node{.op = std::move(op),
            .first_operand = static_cast<std::int32_t>(operands_.size()),
            .input_count = static_cast<std::int32_t>(inputs.size()),
            .first_output = value_count(),
            .output_count = static_cast<std::int32_t>(infer_outputs_.size())};
  operands_.insert(operands_.end(), inputs.begin(), inputs.end());

  for (const OutputDesc& output : infer_outputs_) {
    Value result{.desc = {output.dtype, output.shape}, .kind = kind, .producer = node_count(), .root = value_count()};
    if (output.overwrites >= 0) {
      const ValueId previous = inputs[static_cast<std::size_t>(output.overwrites)];
      const Value& old = value(previous);
      superseded_[static_cast<std::size_t>(previous)] = true;
      result.kind = old.kind;
      result.previous = previous;
      result.slot = old.slot;
    } else if (output.views >= 0) {
      const Value& viewed = value(inputs[static_cast<std::size_t>(output.views)]);
      result.root = viewed.root;
      result.slot = viewed.slot;
      node.is_view = true;
    } else if (output.reuses >= 0) {
      result.reuses = value(inputs[static_cast<std::size_t>(output.reuses)]).root;
    }
    add_value(result);
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().first_output;
}

void StepGraph::divide_along(NodeId node, const PerMeshAxis<char>& axes) {
  hash_.add(8).add(node);
  for (const char axis : axes) hash_.add(static_cast<int>(axis));
  nodes_[static_cast<std::size_t>(node)].axes = axes;
}

void StepGraph::assign(NodeId id, std::int16_t stage, std::int16_t shard) {
  Node& its = nodes_[static_cast<std::size_t>(id)];
  if (its.stage == stage && its.shard == shard) return;
  its.stage = stage;
  its.shard = shard;
  hash_.add(9).add(id).add(static_cast<int>(stage)).add(static_cast<int>(shard));
}

void StepGraph::check_overwrites(const Op& op, std::span<const ValueId> inputs,
                                 std::span<const OutputDesc> outputs) const {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->overwrites < 0) continue;
    const ValueId previous = inputs[static_cast<std::size_t>(output->overwrites)];
    const Value& old = value(previous);
    BRAID_CHECK(old.slot >= 0, ShapeError, "[", op.name(), "] expected a parameter or state to overwrite, got an ",
                name_of(old.kind), " of shape ", old.desc.shape);
    const bool twice = std::any_of(outputs.begin(), output, [&](const OutputDesc& other) {
      return other.overwrites >= 0 && inputs[static_cast<std::size_t>(other.overwrites)] == previous;
    });
    BRAID_CHECK(old.root == previous && !is_overwritten(previous) && !twice, ShapeError, "[", op.name(),
                "] expected the newest version of a parameter or state to overwrite, once, and no view of it");
    BRAID_CHECK(!old.kept, ShapeError, "[", op.name(), "] overwrites a parameter or state of shape ", old.desc.shape,
                " that was to be kept: keep its newest version, after the update");
  }
}

void StepGraph::run_after(NodeId id, NodeId earlier) {
  BRAID_CHECK(0 <= earlier && earlier < id && id < node_count() && !node(id).is_view && !node(earlier).is_view, Error,
              "[step graph] cannot run node ", id, " after node ", earlier,
              ": expected an earlier node, and no view on either side");
  orders_.emplace_back(id, earlier);
  hash_.add(5).add(id).add(earlier);
}

void StepGraph::keep(ValueId id) {
  BRAID_CHECK(!is_overwritten(id), ShapeError, "[keep] the parameter or state of shape ", value(id).desc.shape,
              " was overwritten in this step: keep its newest version");
  Value& root = values_[static_cast<std::size_t>(value(id).root)];
  if (root.kept) return;
  root.kept = true;
  hash_.add(4).add(id);
}

void StepGraph::recompute(ValueId id) {
  values_[static_cast<std::size_t>(id)].recomputed = true;
  hash_.add(6).add(id);
}

bool StepGraph::covers(const StepGraph& other) const {
  // Op and inputs determine the outputs of a node.
  const auto same_node = [](const Node& a, const Node& b) {
    return a.input_count == b.input_count && a.output_count == b.output_count && a.axes == b.axes &&
           a.stage == b.stage && a.shard == b.shard && (a.op == b.op || a.op->equals(*b.op));
  };
  const auto covers_value = [](const Value& mine, Value its) {
    its.kept |= mine.kept;
    return mine == its;
  };
  return operands_ == other.operands_ && orders_ == other.orders_ &&
         std::ranges::equal(values_, other.values_, covers_value) &&
         std::ranges::equal(nodes_, other.nodes_, same_node);
}

void StepGraph::return_to(const Mark& mark) {
  for (std::size_t id = mark.values; id < values_.size(); ++id) {
    const ValueId previous = values_[id].previous;
    if (previous != kNoValue) superseded_[static_cast<std::size_t>(previous)] = false;
  }
  nodes_.resize(mark.nodes);
  values_.resize(mark.values);
  operands_.resize(mark.operands);
  orders_.resize(mark.orders);
  superseded_.resize(mark.values);
  hash_ = mark.hash;
}

std::vector<NodeId> StepGraph::launched_nodes() const {
  std::vector<NodeId> launched;
  for (NodeId id = 0; id < node_count(); ++id) {
    if (!node(id).is_view) launched.push_back(id);
  }
  return launched;
}

Communication StepGraph::communication(NodeId id) const {
  return node(id).op->communication(input_descs(id), output_descs(id));
}

std::vector<ValueDesc> StepGraph::input_descs(NodeId id) const {
  std::vector<ValueDesc> descs;
  for (const ValueId input : inputs(id)) descs.push_back(value(input).desc);
  return descs;
}

std::vector<ValueDesc> StepGraph::output_descs(NodeId id) const {
  std::vector<ValueDesc> descs;
  for (int i = 0; i < node(id).output_count; ++i) descs.push_back(value(output(id, i)).desc);
  return descs;
}

Edges Edges::from_predecessors(std::span<const std::vector<NodeId>> predecessors) {
  const std::size_t nodes = predecessors.size();
  Edges edges;
  edges.predecessor_begin.assign(1, 0);
  edges.successor_begin.assign(nodes + 1, 0);
  for (const auto& before : predecessors) {
    edges.predecessor.insert(edges.predecessor.end(), before.begin(), before.end());
    edges.predecessor_begin.push_back(static_cast<std::int32_t>(edges.predecessor.size()));
    for (const NodeId p : before) ++edges.successor_begin[static_cast<std::size_t>(p) + 1];
  }
  for (std::size_t i = 0; i < nodes; ++i) edges.successor_begin[i + 1] += edges.successor_begin[i];
  edges.successor.resize(edges.predecessor.size());
  std::vector<std::int32_t> next(edges.successor_begin.begin(), edges.successor_begin.end() - 1);
  for (std::size_t id = 0; id < nodes; ++id) {
    for (const NodeId p : predecessors[id]) {
      edges.successor[static_cast<std::size_t>(next[static_cast<std::size_t>(p)]++)] = static_cast<NodeId>(id);
    }
  }
  return edges;
}

Edges StepGraph::edges() const {
  // Readers of every root value, so that the writer of its next version can be ordered after them.
  std::vector<std::vector<NodeId>> readers(values_.size());
  std::vector<std::vector<NodeId>> predecessors(nodes_.size());
  for (const auto& [id, earlier] : orders_) predecessors[static_cast<std::size_t>(id)].push_back(earlier);
  for (const NodeId id : launched_nodes()) {
    auto& before = predecessors[static_cast<std::size_t>(id)];
    for (const ValueId input : inputs(id)) {
      const ValueId root = value(input).root;
      if (value(root).producer != kNoNode) before.push_back(value(root).producer);
      readers[static_cast<std::size_t>(root)].push_back(id);
    }
    for (int i = 0; i < node(id).output_count; ++i) {
      const ValueId previous = value(output(id, i)).previous;
      if (previous == kNoValue) continue;
      if (value(previous).producer != kNoNode) before.push_back(value(previous).producer);
      for (const NodeId reader : readers[static_cast<std::size_t>(value(previous).root)]) {
        if (reader != id) before.push_back(reader);
      }
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
  }

  return Edges::from_predecessors(predecessors);
}

std::vector<NodeId> overwriters(const StepGraph& graph) {
  std::vector<NodeId> result(static_cast<std::size_t>(graph.value_count()), kNoNode);
  for (const Value& value : graph.values()) {
    if (value.previous != kNoValue) result[static_cast<std::size_t>(value.previous)] = value.producer;
  }
  return result;
}

}  // namespace braid
