#include "ops/rewrites/rank_parts.h"

#include <algorithm>
#include <set>

#include "ops/elementwise/elementwise.h"
#include "ops/layout/reshape.h"
#include "ops/optimizer/assign.h"

namespace braid::ops {

namespace {

template <class T>
const T* op_of(const Node& node) {
  return dynamic_cast<const T*>(node.op.get());
}

}  // namespace

bool RankParts::is_own(const Part& part) const {
  if (!partition_.local || part.kind != Kind::summand || part.layout != Layout::partial_mean) return false;
  const NodeId producer = recorded_.value(part.of).producer;
  const bool is_exchanged = producer != kNoNode && op_of<AverageOverRanks>(recorded_.node(producer)) != nullptr;
  return !is_exchanged && part.outer == 1 && part.added == 0 && shape(part.of).size() != 1;
}

bool RankParts::has_shape(ValueId here, const Part& part) const {
  if (part.of == kNoValue) return true;
  ValueDesc expected = recorded_.value(part.of).desc;
  if (part.kind == Kind::piece) expected.shape = {piece_of(expected.shape.size(), along_.ranks)};
  if (part.kind == Kind::rows || part.kind == Kind::border) {
    expected.shape = expected.shape.with(part.layout.axis, part.rows.end - part.rows.begin);
  }
  return graph_.value(here).desc == expected;
}

void RankParts::find_sums() {
  for (const Node& node : recorded_.nodes()) {
    const auto* sum = op_of<AllReduce>(node);
    const bool is_alone = sum != nullptr && node.output_count == 1 && node.input_count == 1;
    if (is_alone && sum->attributes().along.axis == 0 && sum->attributes().count == 0) {
      sums_[recorded_.inputs(node)[0]] = &node;
    }
  }
}

Parts RankParts::rearranged(NodeId id, const Parts& given) const {
  const Node& node = graph_.node(id);
  if (const auto* fill = op_of<Fill>(node)) return {{.kind = Kind::filling, .number = fill->attributes().value}};
  if (const auto* number = op_of<ShardNumber>(node)) return {number_of(number->attributes(), given)};
  if (given.empty()) return {};
  if (op_of<Reshape>(node) != nullptr) return given;
  if (const auto* cast = op_of<Cast>(node)) {
    if (given[0].of == kNoValue) return {};
    const DType recorded = recorded_.value(given[0].of).desc.dtype, to = cast->attributes().dtype;
    return to == recorded || to == computed_in(recorded) ? given : Parts{};
  }
  if (const auto* scale = op_of<Scale>(node)) return {scaled(given[0], scale->attributes().factor)};
  if (const auto* permute = op_of<Permute>(node)) return {swapped(id, given[0], permute->attributes())};
  if (const auto* shards = op_of<ShardRows>(node)) return {taken(given[0], given[1], shards->attributes())};
  if (op_of<Assign>(node) != nullptr) return assigned(given);
  if (const auto* sum = op_of<AllReduce>(node)) return added(node, given, sum->attributes(), false);
  if (const auto* sum = op_of<ReduceScatter>(node)) return added(node, given, sum->attributes(), true);
  if (const auto* own = op_of<OwnPiece>(node)) return {cut_out(given[0], own->attributes())};
  if (const auto* gather = op_of<GatherPieces>(node)) return gathered(given, gather->attributes());
  Parts inputs;  // as rows, of the shape that they have then
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Part as_rows = rows_of(given[i]);
    const bool has_rows = as_rows.kind == Kind::rows || as_rows.kind == Kind::border;
    if (has_rows && !has_shape(graph_.inputs(node)[i], as_rows)) return {};
    inputs.push_back(as_rows);
  }
  const Part& x = inputs[0];
  if (const auto* window = op_of<Window>(node)) return {cut(id, x, window->attributes())};
  if (const auto* concat = op_of<Concat>(node)) return {joined(id, inputs, concat->attributes())};
  if (op_of<Sum>(node) != nullptr) return {with_neighbours(inputs)};
  if (const auto* from = op_of<FromNeighbour>(node)) return {of_neighbour(x, inputs[1], from->attributes())};
  if (const auto* gather = op_of<AllGather>(node)) {
    if (gather->attributes() != along_ || !are_of_all_shards(inputs, x.layout.axis)) return {};
    return {{.kind = Kind::whole, .of = x.of, .outer = shape(x.of).size_between(0, x.layout.axis)}};
  }
  if (const auto* exchange = op_of<AllToAll>(node)) {
    const auto& [along, from, to] = exchange->attributes();
    if (along != along_ || !are_of_all_shards(inputs, from)) return {};
    Parts made;
    for (std::int64_t s = 0; s < per_rank_; ++s) made.push_back(shard_rows(x.of, static_cast<int>(to), s));
    return made;
  }
  return {};
}

Part RankParts::number_of(const ShardIndex& number, const Parts& inputs) const {
  if (number.along != along_ || number.per_rank != per_rank_) return {};
  if (inputs.size() == 1 && !is_whole(inputs[0])) return {};
  return {.kind = Kind::number, .of = inputs.empty() ? kNoValue : inputs[0].of, .shard = number.index};
}

Part RankParts::scaled(Part x, double factor) const {
  const bool is_own_sum = partition_.local && x.kind == Kind::summand && x.layout == Layout::partial_sum;
  if (is_own_sum && factor == static_cast<double>(shards_)) return whole(x.of);
  if (x.kind != Kind::whole) return {};
  x.number *= factor;
  return x;
}

/// Shards become the outermost axis, or what they were.
Part RankParts::swapped(NodeId id, Part x, const PermuteAttributes& permute) const {
  const Shape& from = graph_.value(graph_.inputs(id)[0]).desc.shape;
  if (permute.axes != std::vector{1, 0, 2} || (x.kind != Kind::whole && x.kind != Kind::summand)) return {};
  if (x.outer == 1 && from[1] == shards_ && axis_before(x.of, from[0]).has_value()) {
    x.outer = from[0];
  } else if (from[0] == shards_ && from[1] == x.outer) {
    x.outer = 1;
  } else {
    return {};
  }
  return x;
}

/// The axis with as many places before it that shards can divide.
std::optional<int> RankParts::axis_before(ValueId of, std::int64_t outer) const {
  const Shape& x = shape(of);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.size_between(0, axis) == outer && splits(of, axis)) return axis;
  }
  return std::nullopt;
}

Part RankParts::rows_of(const Part& x) const {
  if (x.kind == Kind::piece) {
    const std::optional<int> axis = axis_before(x.of, x.outer);
    const bool is_in_order = axis == 0 || (axis.has_value() && per_rank_ == 1);
    return is_in_order ? rows(x.of, *axis, rows_of_rank(x.of, *axis)) : x;
  }
  if (x.kind == Kind::border) return completed(std::span(&x, 1)).value_or(x);
  return x;
}

/// Some of the rows of a part. The rows that a border loses are then taken to be zero.
Part RankParts::cut(NodeId id, Part x, const WindowAttributes& window) const {
  if (x.kind == Kind::filling) return x.number == window.value ? x : Part{};
  const Shape& from = graph_.value(graph_.inputs(id)[0]).desc.shape;
  const bool is_by_shard = x.kind == Kind::piece;
  const int axis = is_by_shard ? 0 : x.layout.axis;
  for (int i = 0; i < from.rank(); ++i) {
    const bool is_whole = window.begin[i] == 0 && window.shape[i] == from[i];
    if (i != axis && !is_whole) return {};
  }
  const Rows taken = Rows{0, window.shape[axis]}.shifted(window.begin[axis]);
  if (is_by_shard) {
    const std::optional<int> split = axis_before(x.of, x.outer);
    const std::int64_t each = from[0] / per_rank_;
    const bool is_shard = split.has_value() && window.shape[0] == each && taken.begin % each == 0;
    return is_shard ? shard_rows(x.of, *split, taken.begin / each) : Part{};
  }
  const Rows before = x.rows;
  x.rows = taken.shifted(before.begin);
  x.known = x.known.both(x.rows);
  const bool is_right =
      x.kind == Kind::border ? window.value == 0 : x.kind == Kind::rows && !taken.empty() && before.contain(x.rows);
  return is_right ? x : Part{};
}

/// The rows of a shard, if these are what it and its neighbours add to them.
std::optional<Part> RankParts::completed(std::span<const Part> borders) const {
  const Part& first = borders.front();
  const std::int64_t each = this->each(first.of, first.layout.axis);
  if (each == 0 || first.rows.begin < 0 || first.layout.below > each || first.layout.above > each) return std::nullopt;
  const std::int64_t shard = first.rows.begin / each;
  if (shard >= per_rank_ || first.rows != own_rows(first.of, first.layout.axis, shard)) return std::nullopt;
  std::set<std::int64_t> missing;
  for (std::int64_t s = shard - 1; s <= shard + 1; ++s) {
    const bool exists = along_.ranks > 1 || (0 <= s && s < per_rank_);
    if (exists && !reach(first.of, first.layout, s).both(first.rows).empty()) missing.insert(s);
  }
  for (const Part& border : borders) {
    const bool is_like = border.kind == Kind::border && border.of == first.of && border.layout == first.layout;
    if (!is_like || border.rows != first.rows || missing.erase(border.shard) == 0) return std::nullopt;
    if (!border.known.contain(reach(border.of, border.layout, border.shard).both(border.rows))) return std::nullopt;
  }
  if (!missing.empty()) return std::nullopt;
  return shard_rows(first.of, first.layout.axis, shard);
}

Part RankParts::with_neighbours(const Parts& inputs) const {
  Parts summands;
  for (const Part& input : inputs) {
    if (input.kind != Kind::filling || input.number != 0) summands.push_back(input);
  }
  if (summands.size() == 1) return rows_of(summands.front());
  return summands.empty() ? Part{} : completed(summands).value_or(Part{});
}

/// Rows that follow one another, and what is outside of the value.
Part RankParts::joined(NodeId id, const Parts& inputs, const ConcatAttributes& concat) const {
  const auto some = std::ranges::find(inputs, Kind::rows, &Part::kind);
  if (some == inputs.end()) return {};
  const Rows of_rank = rows_of_rank(some->of, some->layout.axis);
  const int rank = shape(some->of).rank(), axis = (concat.axis + rank) % rank;
  Part all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Part next = inputs[i];
    if (next.kind == Kind::filling && along_.ranks == 1) {  // there are no neighbours
      const std::int64_t count = graph_.value(graph_.inputs(id)[i]).desc.shape[axis];
      next = rows(some->of, axis, i == 0 ? Rows{-count, 0} : Rows{of_rank.end, of_rank.end + count});
      next.number = inputs[i].number;
    }
    if (next.kind != Kind::rows || next.of != some->of || next.layout.axis != axis) return {};
    if (i == 0) all = next;
    if (i > 0 && next.rows.begin != all.rows.end) return {};
    if (!of_rank.contain(all.rows) && !of_rank.contain(next.rows) && next.number != all.number) return {};
    if (!of_rank.contain(next.rows)) all.number = next.number;
    all.rows.end = next.rows.end;
  }
  return all;
}

/// What the rank before or after has, as seen from here.
Part RankParts::of_neighbour(Part x, const Part& filling, const FromNeighbourAttributes& from) const {
  if (from.along != along_ || filling.kind != Kind::filling) return {};
  if (x.kind != Kind::rows && x.kind != Kind::border) return {};
  const Rows of_rank = rows_of_rank(x.of, x.layout.axis);
  if (x.kind == Kind::rows ? !of_rank.contain(x.rows) : filling.number != 0) return {};
  x.shard += from.from * per_rank_;
  x.rows = x.rows.shifted(from.from * of_rank.end);
  x.known = x.known.shifted(from.from * of_rank.end);
  x.number = filling.number;
  return x;
}

Part RankParts::cut_out(const Part& x, const MeshRanks& along) const {
  return along == along_ && is_everywhere(x) ? Part{.kind = Kind::piece, .of = x.of} : Part{};
}

Parts RankParts::gathered(const Parts& pieces, const GatherPiecesAttributes& gather) const {
  Parts made;
  for (const Part& piece : pieces) {
    const bool is_piece = piece.kind == Kind::piece && piece.outer == 1 && gather.along == along_ &&
                          shape(piece.of).size() == gather.sizes[made.size()];
    made.push_back(is_piece ? whole(piece.of) : Part{});
  }
  return made;
}

Part RankParts::taken(const Part& x, const Part& number, const Shards& shards) const {
  const bool is_number = number.kind == Kind::number && number.of == kNoValue && shards.shards == shards_;
  const bool is_whole = x.kind == Kind::whole && x.number == 1;
  const std::optional<int> axis = is_whole ? axis_before(x.of, x.outer) : std::nullopt;
  return is_number && axis.has_value() ? shard_rows(x.of, *axis, number.shard) : Part{};
}

/// Whether each shard of this rank has its rows, in their order.
bool RankParts::are_of_all_shards(const Parts& inputs, std::int64_t axis) const {
  if (std::ssize(inputs) != per_rank_) return false;
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    const Part& x = inputs[s];
    if (x.kind != Kind::rows || x.of != inputs[0].of || x.layout.axis != axis) return false;
    if (x.rows != own_rows(x.of, x.layout.axis, static_cast<std::int64_t>(s))) return false;
  }
  return true;
}

/// Sums and means of what all shards have; or, of a sum along the other axis as well, of those along both.
Parts RankParts::added(const Node& node, const Parts& inputs, const AllReduceAttributes& sum, bool scatters) const {
  const bool is_joined = sum.along.axis == MeshRanks::kBothAxes;
  const MeshRanks both{partition_.ranks, 1, MeshRanks::kBothAxes};
  if (sum.along != (is_joined ? both : along_) || sum.exact != partition_.exact) return {};
  if (is_joined && (axis_ == 0 || sum.exact)) return {};
  if (sum.count == 0 ? sum.begin != 0 : scatters) return {};
  if (sum.shards != (is_joined ? partition_.shards : shards_)) return {};
  if (std::ssize(inputs) != node.output_count * per_rank_ || sum.divisors.size() * per_rank_ != inputs.size())
    return {};
  Parts made;
  for (int i = 0; i < node.output_count; ++i) {
    const Part& first = inputs[i * per_rank_];
    for (std::int64_t s = 0; s < per_rank_; ++s) {
      const Part& leaf = inputs[i * per_rank_ + s];
      if (leaf.kind != Kind::summand || leaf.of != first.of || leaf.layout != first.layout) return {};
      if (leaf.shard != s || leaf.outer != first.outer || (!scatters && leaf.outer != 1)) return {};
      if (leaf.added != (s == 0 ? sum.begin : 0)) return {};
    }
    std::int64_t divisor = first.layout == Layout::partial_mean ? shards_ : 1;
    ValueId of = first.of;
    if (is_joined) {
      const auto found = sums_.find(of);
      if (found == sums_.end() || scatters) return {};
      divisor *= op_of<AllReduce>(*found->second)->attributes().divisors.front();
      of = found->second->first_output;
    }
    if (sum.divisors[i] != divisor) return {};
    const std::int64_t end = sum.count > 0 ? sum.begin + sum.count : shape(of).size();
    if (scatters) {
      made.push_back({.kind = Kind::piece, .of = of, .outer = first.outer});
    } else if (end < shape(of).size()) {
      made.push_back(first);
      made.back().added = end;
    } else {
      made.push_back(whole(of));
    }
  }
  return made;
}

/// Pairs of the version before and the next one.
Parts RankParts::assigned(const Parts& inputs) const {
  Parts made;
  for (std::size_t i = 0; i + 1 < inputs.size(); i += 2) {
    const ValueId next = inputs[i + 1].of;
    const bool follows = next != kNoValue && recorded_.value(next).previous == inputs[i].of && is_whole(inputs[i]) &&
                         is_whole(inputs[i + 1]);
    made.push_back(follows ? whole(next) : Part{});
  }
  return made;
}

}  // namespace braid::ops
