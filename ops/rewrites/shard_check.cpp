#include "ops/rewrites/shard_check.h"

#include <map>

#include "ops/collective/collective.h"
#include "ops/layout/strided_copy.h"

namespace braid::ops {

namespace {

/// The shards of this rank that a value depends on: none, if all ranks have the same; one of them; or several. Or none,
/// but the value is this rank's piece of what all ranks have.
using Source = std::int64_t;
constexpr Source kNone = -1, kSeveral = -2, kPiece = -3;

Source both(Source a, Source b) {
  if (a == kNone || a == b) return b;
  return b == kNone ? a : kSeveral;
}

/// Whether the first version of a tensor is in pieces.
bool in_pieces(const StepGraph& graph, ValueId version) {
  while (graph.value(version).previous != kNoValue) version = graph.value(version).previous;
  return graph.value(graph.value(version).root).in_pieces;
}

}  // namespace

std::vector<std::string> check_shards(const StepGraph& divided, const Partition& partition) {
  const std::int64_t per_rank = partition.shards / partition.ranks;
  std::vector<Source> sources(static_cast<std::size_t>(divided.value_count()), kNone);
  const auto source = [&](ValueId value) -> Source& { return sources[static_cast<std::size_t>(value)]; };
  for (ValueId id = 0; id < divided.value_count(); ++id) {
    if (divided.value(id).split) source(id) = per_rank == 1 ? 0 : kSeveral;
    if (divided.value(id).in_pieces) source(id) = kPiece;
  }
  std::vector<std::string> faults;
  std::map<ValueId, std::int64_t> added;  // per value: how many of its first elements are already sums
  for (NodeId id = 0; id < divided.node_count(); ++id) {
    const Node& node = divided.node(id);
    const auto inputs = divided.inputs(node);
    // Each group of inputs has the shards in their order.
    const auto check_leaves = [&] {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Source expected = static_cast<Source>(i) % per_rank, found = source(inputs[i]);
        if (found == expected) continue;
        faults.push_back(message("Node ", id, " '", node.op->name(), "' takes shard ", expected, " as input ", i,
                                 ", but value ", inputs[i],
                                 found == kNone      ? " is the same on all ranks."
                                 : found == kPiece   ? " is a piece."
                                 : found == kSeveral ? " is of several shards."
                                                     : message(" is of shard ", found, '.')));
      }
    };
    Source made = kNone;
    if (const auto* sum = dynamic_cast<const AllReduce*>(node.op.get())) {
      check_leaves();
      const std::int64_t size = divided.value(node.first_output).desc.shape.size();
      const std::int64_t begin = sum->attributes().begin, count = sum->attributes().count;
      if (const std::int64_t done = added.contains(inputs[0]) ? added[inputs[0]] : 0; done != begin) {
        faults.push_back(message("Node ", id, " '", node.op->name(), "' adds elements from ", begin, " of value ",
                                 inputs[0], ", whose first ", done, " are sums."));
      }
      if (count > 0 && begin + count < size) {
        made = source(inputs[0]);
        added[node.first_output] = begin + count;
      }
    } else if (dynamic_cast<const AllGather*>(node.op.get()) != nullptr) {
      check_leaves();
    } else if (dynamic_cast<const ReduceScatter*>(node.op.get()) != nullptr) {
      check_leaves();
      made = kPiece;
    } else if (dynamic_cast<const OwnPiece*>(node.op.get()) != nullptr && source(inputs[0]) == kNone) {
      made = kPiece;
    } else if (dynamic_cast<const GatherPieces*>(node.op.get()) != nullptr) {
      for (const ValueId input : inputs) {
        if (source(input) == kPiece) continue;
        faults.push_back(
            message("Node ", id, " '", node.op->name(), "' gathers value ", input, ", which is no piece."));
      }
    } else if (const auto* number = dynamic_cast<const ShardNumber*>(node.op.get())) {
      made = number->attributes().index;
    } else if (const auto* window = dynamic_cast<const Window*>(node.op.get());
               window != nullptr && divided.value(inputs[0]).split && per_rank > 1) {
      const std::int64_t rows = divided.value(inputs[0]).desc.shape[0] / per_rank;
      const std::int64_t begin = window->attributes().begin.front();
      const bool is_shard = begin % rows == 0 && divided.value(node.first_output).desc.shape[0] == rows;
      made = is_shard ? begin / rows : kSeveral;
    } else {
      for (const ValueId input : inputs) made = both(made, source(input));
    }
    for (int i = 0; i < node.output_count; ++i) {
      const ValueId output = divided.output(id, i);
      source(output) = made;
      if (divided.value(output).slot >= 0 && made != (in_pieces(divided, output) ? kPiece : kNone)) {
        faults.push_back(message("Node ", id, " '", node.op->name(), "' writes a tensor that all ranks have, value ",
                                 output,
                                 made == kNone ? ", in pieces, from all of it." : ", from what only this rank has."));
      }
    }
  }
  return faults;
}

}  // namespace braid::ops
