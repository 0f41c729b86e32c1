#pragma once
// Graphs of a rank in which one thing is changed: another input of a node, or an op that reaches other ranks, other
// rows or other elements (ops/rewrites/partition_check.h).

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_copy.h"
#include "ops/collective/collective.h"
#include "ops/layout/strided_copy.h"

namespace braid::testing {

/// One node with other inputs, and another op if that is given.
struct Change {
  NodeId node;
  std::vector<ValueId> inputs;
  OpPtr op = nullptr;
};

/// Nothing if no such graph can be recorded.
inline std::optional<RewrittenGraph> changed(const RewrittenGraph& divided, const Change& change) {
  GraphCopy copy(divided.graph);
  try {
    copy.in_order([&](NodeId id) {
      const bool is_it = id == change.node;
      copy.add_node(id, copy.values(is_it ? std::span<const ValueId>(change.inputs) : divided.graph.inputs(id)),
                    is_it ? change.op : nullptr);
      const bool has_outputs = copy.graph().nodes().back().output_count >= divided.graph.node(id).output_count;
      BRAID_CHECK(has_outputs, ShapeError, "later nodes read outputs that this one does not have");
    });
  } catch (const ShapeError&) {
    return std::nullopt;
  }
  return RewrittenGraph{copy.finish().graph, divided.values, divided.nodes};
}

template <class T>
OpPtr made(auto attributes, auto&& change) {
  change(attributes);
  return std::make_shared<T>(std::move(attributes));
}

/// Other ops of a node that communicates or cuts.
inline std::vector<OpPtr> other_ops(const Op& op, int ranks) {
  std::vector<OpPtr> others;
  const auto other_group = [&](ops::MeshRanks& along) {
    along = along.axis == ops::MeshRanks::kBothAxes ? ops::MeshRanks{ranks / 2, 2, 0}
                                                    : ops::MeshRanks{along.ranks, along.stride, 1 - along.axis};
  };
  if (const auto* sum = dynamic_cast<const ops::AllReduce*>(&op)) {
    const ops::AllReduceAttributes its = sum->attributes();
    others.push_back(made<ops::AllReduce>(its, [](auto& changed) { changed.divisors.back() *= 2; }));
    others.push_back(made<ops::AllReduce>(its, [&](auto& changed) { other_group(changed.along); }));
    others.push_back(made<ops::AllReduce>(its, [](auto& changed) { changed.exact = !changed.exact; }));
  } else if (const auto* part = dynamic_cast<const ops::ReduceScatter*>(&op)) {
    const ops::AllReduceAttributes its = part->attributes();
    others.push_back(made<ops::ReduceScatter>(its, [](auto& changed) { changed.divisors.front() *= 2; }));
  } else if (const auto* from = dynamic_cast<const ops::FromNeighbour*>(&op)) {
    const ops::FromNeighbourAttributes its = from->attributes();
    others.push_back(made<ops::FromNeighbour>(its, [](auto& changed) { changed.from = -changed.from; }));
    others.push_back(made<ops::FromNeighbour>(its, [&](auto& changed) { other_group(changed.along); }));
  } else if (const auto* number = dynamic_cast<const ops::ShardNumber*>(&op)) {
    const ops::ShardIndex its = number->attributes();
    others.push_back(made<ops::ShardNumber>(its, [](auto& changed) { ++changed.index; }));
    others.push_back(made<ops::ShardNumber>(its, [&](auto& changed) { other_group(changed.along); }));
  } else if (const auto* window = dynamic_cast<const ops::Window*>(&op)) {
    const ops::WindowAttributes its = window->attributes();
    for (std::size_t i = 0; i < its.begin.size(); ++i) {
      if (its.begin[i] != 0) others.push_back(made<ops::Window>(its, [&](auto& changed) { --changed.begin[i]; }));
    }
  } else if (const auto* gather = dynamic_cast<const ops::AllGather*>(&op)) {
    others.push_back(made<ops::AllGather>(ops::MeshRanks(gather->attributes()), other_group));
  } else if (const auto* exchange = dynamic_cast<const ops::AllToAll*>(&op)) {
    const ops::AllToAllAttributes its = exchange->attributes();
    others.push_back(made<ops::AllToAll>(its, [](auto& changed) { std::swap(changed.from, changed.to); }));
    others.push_back(made<ops::AllToAll>(its, [&](auto& changed) { other_group(changed.along); }));
  }
  return others;
}

/// What an assignment copies.
inline ValueId assigned(const StepGraph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNoNode || graph.node(producer).op->name() != "assign") return value;
  return graph.inputs(producer)[2 * static_cast<std::size_t>(value - graph.output(producer, 0)) + 1];
}

/// Whether two values are the same bytes, or computed alike from the same.
inline bool are_same(const StepGraph& graph, ValueId a, ValueId b) {
  a = assigned(graph, a);
  b = assigned(graph, b);
  if (graph.value(a).root == graph.value(b).root) return true;
  const NodeId first = graph.value(a).producer, second = graph.value(b).producer;
  if (first == kNoNode || second == kNoNode || graph.inputs(first).size() != graph.inputs(second).size()) return false;
  const Op &op = *graph.node(first).op, &other = *graph.node(second).op;
  return op.name() == other.name() && op.equals(other) && a - graph.output(first, 0) == b - graph.output(second, 0) &&
         std::ranges::equal(graph.inputs(first), graph.inputs(second),
                            [&](ValueId x, ValueId y) { return are_same(graph, x, y); });
}

/// Some changes of a graph: of each node to one of its other ops, of some inputs to another value like them, and an
/// input more or less.
inline std::vector<Change> changes(const StepGraph& graph, int ranks, Generator& random) {
  std::vector<Change> list;
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    const auto inputs = graph.inputs(id);
    const std::vector<OpPtr> others = other_ops(*graph.node(id).op, ranks);
    if (!others.empty()) {
      list.push_back(
          {id, {inputs.begin(), inputs.end()}, others[random.below(static_cast<std::uint32_t>(others.size()))]});
    }
    if (inputs.empty()) continue;
    const std::size_t input = random.below(static_cast<std::uint32_t>(inputs.size()));
    std::vector<ValueId> like;
    for (ValueId value = 0; value < graph.node(id).first_output; ++value) {
      const bool is_like = graph.value(value).desc == graph.value(inputs[input]).desc;
      if (is_like && !are_same(graph, value, inputs[input])) like.push_back(value);
    }
    if (like.empty()) continue;
    if (inputs.size() > 1) list.push_back({id, {inputs.begin(), inputs.end() - 1}});
    list.push_back({id, {inputs.begin(), inputs.end()}});
    list.back().inputs.push_back(like.front());
    list.push_back({id, {inputs.begin(), inputs.end()}});
    list.back().inputs[input] = like[random.below(static_cast<std::uint32_t>(like.size()))];
  }
  return list;
}

}  // namespace braid::testing
