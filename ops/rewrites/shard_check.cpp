#include "ops/rewrites/shard_check.h"

#include <algorithm>
#include <map>

#include "ops/collective/collective.h"
#include "ops/collective/compression.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/optimizer/assign.h"

namespace braid::ops {

namespace {

/// What a value has of the shards of this rank.
struct Source {
  enum class Kind {
    everything,  ///< the same on all ranks
    shard,       ///< part of a shard from first to last: several where it may be a neighbour's halo, or any one's
    rows,        ///< the rows of all shards of this rank
    piece,       ///< this rank's piece
    several,     ///< something else
  };
  Kind kind = Kind::everything;
  std::int64_t first = 0, last = 0;

  static Source shard(std::int64_t number) { return {Kind::shard, number, number}; }
  bool is_shard(std::int64_t number) const { return kind == Kind::shard && first <= number && number <= last; }
  friend bool operator==(const Source&, const Source&) = default;
};

Source both(const Source& a, const Source& b) {
  if (a.kind == Source::Kind::everything || a == b) return b;
  if (b.kind == Source::Kind::everything) return a;
  const Source common{Source::Kind::shard, std::max(a.first, b.first), std::min(a.last, b.last)};
  const bool is_shard = a.kind == b.kind && a.kind == Source::Kind::shard && common.first <= common.last;
  return is_shard ? common : Source{Source::Kind::several};
}

Source with_neighbours(Source source) {
  if (source.kind != Source::Kind::shard) return source;
  return {source.kind, source.first - 1, source.last + 1};
}

/// Whether an op cuts halos off, or joins rows with those of neighbours.
bool may_have_borders(const Op& op) {
  return dynamic_cast<const Window*>(&op) != nullptr || dynamic_cast<const Concat*>(&op) != nullptr ||
         dynamic_cast<const Sum*>(&op) != nullptr;
}

/// Whether an op makes each of its outputs from as many inputs of its own, in their order.
bool is_by_tensor(const Op& op) {
  return dynamic_cast<const AllReduce*>(&op) != nullptr || dynamic_cast<const ReduceScatter*>(&op) != nullptr ||
         dynamic_cast<const Assign*>(&op) != nullptr;
}

Layout layout_of(const StepGraph& graph, ValueId version, std::size_t axis) {
  while (graph.value(version).previous != kNoValue) version = graph.value(version).previous;
  return graph.value(graph.value(version).root).layouts[axis];
}

/// A node's op, if it is of this class and its ranks lie along the axis.
template <class Collective>
const Collective* collective(const Node& node, std::size_t axis) {
  const auto* op = dynamic_cast<const Collective*>(node.op.get());
  if (op == nullptr) return nullptr;
  const auto lies = [&](const MeshRanks& along) { return along.lie_along(static_cast<std::int64_t>(axis)); };
  if constexpr (requires { op->attributes().along; }) {
    return lies(op->attributes().along) ? op : nullptr;
  } else {
    return lies(op->attributes()) ? op : nullptr;
  }
}

}  // namespace

bool may_have_halos(const StepGraph& recorded, std::size_t axis) {
  return std::ranges::any_of(recorded.nodes(),
                             [&](const Node& node) { return node.axes[axis] == 'h' || node.axes[axis] == 'w'; });
}

std::vector<std::string> check_shards(const StepGraph& divided, const Partition& partition, bool has_halos,
                                      std::size_t axis) {
  const std::int64_t per_rank = partition.mesh().shards_along(axis) / partition.along(axis).ranks;
  using Kind = Source::Kind;
  const Source rows = per_rank == 1 ? Source::shard(0) : Source{Kind::rows};
  std::vector<Source> sources(static_cast<std::size_t>(divided.value_count()));
  const auto source = [&](ValueId value) -> Source& { return sources[static_cast<std::size_t>(value)]; };
  for (ValueId id = 0; id < divided.value_count(); ++id) {
    const Layout layout = divided.value(id).layouts[axis];
    if (layout == Layout::split) source(id) = rows;
    if (layout == Layout::pieces) source(id) = {Kind::piece};
    if (divided.value(id).slot >= 0 && partition.local) source(id) = Source::shard(0);
  }
  std::vector<std::string> faults;
  std::map<ValueId, std::int64_t> added;  // per value: how many of its first elements are already sums
  for (NodeId id = 0; id < divided.node_count(); ++id) {
    const Node& node = divided.node(id);
    const auto inputs = divided.inputs(node);
    const auto check_input = [&](std::size_t i, std::int64_t expected) {
      const Source found = source(inputs[i]);
      if (found.is_shard(expected)) return;
      faults.push_back(message("Node ", id, " '", node.op->name(), "' takes shard ", expected, " as input ", i,
                               ", but value ", inputs[i],
                               found.kind == Kind::everything ? " is the same on all ranks."
                               : found.kind == Kind::piece    ? " is a piece."
                               : found.kind == Kind::shard    ? message(" is of shard ", found.first, '.')
                                                              : " is of several shards."));
    };
    // Each group of inputs has the shards in their order.
    const auto check_leaves = [&] {
      for (std::size_t i = 0; i < inputs.size(); ++i) check_input(i, static_cast<std::int64_t>(i) % per_rank);
    };
    const auto has_all_shards = [&](std::span<const ValueId> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!source(values[i]).is_shard(static_cast<std::int64_t>(i))) return false;
      }
      return per_rank > 1 && std::ssize(values) == per_rank;
    };
    const auto of_all = [&](std::span<const ValueId> values) {
      const bool has_borders = has_halos && may_have_borders(*node.op);
      Source all;
      for (const ValueId value : values) all = both(all, has_borders ? with_neighbours(source(value)) : source(value));
      return all;
    };
    const auto* const joined = dynamic_cast<const Concat*>(node.op.get());
    Source made;
    std::size_t of_each = 0;  // inputs of each output; 0: all are made of all
    bool exchanges = false;   // output i is of shard i
    if (const auto* sum = collective<AllReduce>(node, axis)) {
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
    } else if (collective<AllGather>(node, axis) != nullptr) {
      check_leaves();
    } else if (collective<AllToAll>(node, axis) != nullptr) {
      check_leaves();
      exchanges = true;
    } else if (collective<ReduceScatter>(node, axis) != nullptr) {
      check_leaves();
      made = {Kind::piece};
    } else if (collective<OwnPiece>(node, axis) != nullptr && source(inputs[0]).kind == Kind::everything) {
      made = {Kind::piece};
    } else if (dynamic_cast<const Reshape*>(node.op.get()) != nullptr && source(inputs[0]).kind == Kind::piece) {
      made = rows;  // only pieces that are rows are given a shape
    } else if (collective<GatherPieces>(node, axis) != nullptr) {
      for (const ValueId input : inputs) {
        if (source(input).kind == Kind::piece) continue;
        faults.push_back(
            message("Node ", id, " '", node.op->name(), "' gathers value ", input, ", which is no piece."));
      }
    } else if (dynamic_cast<const ToShards*>(node.op.get()) != nullptr && source(inputs[0]).kind == Kind::everything) {
      made = {Kind::shard, 0, per_rank - 1};  // equal parts for all shards
    } else if (const auto* number = collective<ShardNumber>(node, axis)) {
      made = Source::shard(number->attributes().index);
    } else if (const auto* window = dynamic_cast<const Window*>(node.op.get());
               window != nullptr && source(inputs[0]).kind == Kind::rows) {
      const std::int64_t each = divided.value(inputs[0]).desc.shape[0] / per_rank;
      const std::int64_t begin = window->attributes().begin.front();
      const bool is_shard = begin % each == 0 && divided.value(node.first_output).desc.shape[0] == each;
      made = is_shard ? Source::shard(begin / each) : Source{Kind::several};
    } else if (const auto* from = collective<FromNeighbour>(node, axis)) {
      const bool before = from->attributes().from < 0;
      check_input(0, before ? per_rank - 1 : 0);
      made = Source::shard(before ? 0 : per_rank - 1);
    } else if (joined != nullptr && joined->attributes().axis == 0 && has_all_shards(inputs)) {  // no halos there
      made = rows;
    } else if (is_by_tensor(*node.op)) {  // a collective along the other axis, or an assignment
      of_each = inputs.size() / static_cast<std::size_t>(node.output_count);
    } else {
      made = of_all(inputs);
    }
    for (int i = 0; i < node.output_count; ++i) {
      const ValueId output = divided.output(id, i);
      if (of_each > 0) made = of_all(inputs.subspan(static_cast<std::size_t>(i) * of_each, of_each));
      if (exchanges) made = Source::shard(i);
      source(output) = made;
      if (divided.value(output).slot < 0) continue;
      const Layout layout = layout_of(divided, output, axis);
      const bool is_right = layout == Layout::pieces  ? made.kind == Kind::piece
                            : layout == Layout::split ? made.kind == rows.kind
                                                      : made.kind == Kind::everything || partition.local;
      if (layout == Layout::split) source(output) = rows;
      if (is_right) continue;
      faults.push_back(
          message("Node ", id, " '", node.op->name(), "' writes value ", output,
                  made.kind == Kind::everything ? ", in parts, from all of it." : ", from what only this rank has."));
    }
  }
  return faults;
}

}  // namespace braid::ops
