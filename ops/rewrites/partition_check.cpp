#include "ops/rewrites/partition_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/collective/collective.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/concat.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/optimizer/assign.h"

namespace braid::ops {

namespace {

/// Rows along an axis, counted from the first one of this rank.
struct Rows {
  std::int64_t begin = 0, end = 0;
  Rows shifted(std::int64_t by) const { return {begin + by, end + by}; }
  Rows both(Rows other) const { return {std::max(begin, other.begin), std::min(end, other.end)}; }
  bool empty() const { return begin >= end; }
  bool contain(Rows other) const { return other.empty() || (begin <= other.begin && other.end <= end); }
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// What a value of the divided graph has of a recorded value.
struct Part {
  enum class Kind {
    unknown,
    whole,    ///< all elements
    rows,     ///< some rows along layout.axis
    border,   ///< summands of a shard for its own rows and for some of its neighbours' (the halo of layout)
    summand,  ///< what a shard adds to a sum or a mean
    piece,    ///< the elements that this rank updates
    number,   ///< the number of a shard; with a recorded number, that of its part along this axis
    filling,  ///< a constant
  };
  Kind kind = Kind::unknown;
  ValueId of = kNoValue;
  Layout layout = {};
  std::int64_t shard = 0;      ///< counted from the first one of this rank
  Rows rows = {}, known = {};  ///< known: those rows of a border that are not left out
  double number = 1;           ///< a factor of the whole; the filling; what rows outside of the value are filled with
  std::int64_t outer = 1;      ///< elements are ordered by shard, then by as many outer places of the axis
  std::int64_t added = 0;      ///< the first elements of a summand that are sums already
};

using Kind = Part::Kind;
using Parts = std::vector<Part>;

/// The product of the extents before an axis.
std::int64_t outer_size(const Shape& shape, int axis) {
  std::int64_t size = 1;
  for (int i = 0; i < axis; ++i) size *= shape[i];
  return size;
}

bool is_same(const MeshRanks& a, const MeshRanks& b) { return a.group() == b.group() && a.axis == b.axis; }

template <class T>
const T* op_of(const Node& node) {
  return dynamic_cast<const T*>(node.op.get());
}

class PartitionCheck {
 public:
  PartitionCheck(const StepGraph& recorded, const RewrittenGraph& divided, const Partition& partition, std::size_t axis)
      : recorded_(recorded),
        divided_(divided),
        graph_(divided.graph),
        partition_(partition),
        axis_(axis),
        along_(partition.along(axis)),
        shards_(partition.mesh().shards_along(axis)),
        per_rank_(shards_ / along_.ranks),
        parts_(graph_.value_count()) {}

  std::string run() {
    find_sources();
    find_sums();
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const Node& node = graph_.node(id);
      Parts inputs;
      for (const ValueId input : graph_.inputs(node)) inputs.push_back(part(input));
      Parts made = recorded_outputs(id, inputs);
      if (made.empty()) made = rearranged(id, inputs);
      if (made.empty() || std::ssize(made) != node.output_count ||
          std::ranges::count(made, Kind::unknown, &Part::kind) > 0) {
        return fault(id, inputs);
      }
      std::ranges::copy(made, parts_.begin() + node.first_output);
    }
    return fault_of_results();
  }

 private:
  Part& part(ValueId here) { return parts_[here]; }
  const Shape& shape(ValueId recorded) const { return recorded_.value(recorded).desc.shape; }
  /// Rows of each shard.
  std::int64_t each(ValueId recorded, int axis) const { return shape(recorded)[axis] / shards_; }
  Rows own_rows(ValueId recorded, int axis, std::int64_t shard) const {
    return Rows{0, each(recorded, axis)}.shifted(shard * each(recorded, axis));
  }
  Rows rows_of_rank(ValueId recorded, int axis) const { return {0, per_rank_ * each(recorded, axis)}; }
  bool splits(ValueId recorded, int axis) const {
    const Shape& x = shape(recorded);
    return axis >= 0 && axis < x.rank() && x[axis] % shards_ == 0;
  }
  static Part whole(ValueId of) { return {.kind = Kind::whole, .of = of}; }
  Part rows(ValueId of, int axis, Rows which) const {
    if (!splits(of, axis)) return {};
    return {.kind = Kind::rows, .of = of, .layout = Layout::split_along(static_cast<std::size_t>(axis)), .rows = which};
  }
  Part shard_rows(ValueId of, int axis, std::int64_t shard) const {
    return splits(of, axis) ? rows(of, axis, own_rows(of, axis, shard)) : Part{};
  }

  /// What a shard has of a value that lies so; or, without a shard, a rank.
  Part part_of(ValueId of, Layout layout, std::optional<std::int64_t> shard) const {
    if (layout == Layout::replicated) return whole(of);
    if (layout == Layout::pieces) return {.kind = Kind::piece, .of = of};
    if (is_partial(layout)) return {.kind = Kind::summand, .of = of, .layout = layout, .shard = shard.value_or(0)};
    const Rows its = shard.has_value() ? reach(of, layout, *shard) : rows_of_rank(of, layout.axis);
    if (!layout.has_halo()) return rows(of, layout.axis, its);
    return {.kind = Kind::border, .of = of, .layout = layout, .shard = *shard, .rows = its, .known = its};
  }
  /// The rows that a shard reads, or to which it adds something.
  Rows reach(ValueId of, Layout layout, std::int64_t shard) const {
    const Rows own = own_rows(of, layout.axis, shard);
    return {own.begin - layout.below, own.end + layout.above};
  }

  void find_sources() {
    std::map<std::int32_t, ValueId> persistent;
    std::map<ValueId, ValueId> input;
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      const Value& value = recorded_.value(id);
      if (value.producer != kNoNode) continue;
      value.slot >= 0 ? persistent[value.slot] = id : input[divided_.value(id)] = id;
    }
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.producer != kNoNode) continue;
      const auto& sources = value.slot >= 0 ? persistent : input;
      const auto found = sources.find(value.slot >= 0 ? value.slot : id);
      if (found == sources.end() || recorded_.value(found->second).layouts != value.layouts) continue;
      if (const Part its = source(found->second); has_shape(id, its)) part(id) = its;
    }
  }

  /// What a rank has of an input or persistent tensor.
  Part source(ValueId recorded) const {
    return part_of(recorded, recorded_.value(recorded).layouts[axis_], std::nullopt);
  }

  /// All-reductions along the first axis, which may be made along both when the second is divided.
  void find_sums() {
    for (const Node& node : recorded_.nodes()) {
      const auto* sum = op_of<AllReduce>(node);
      const bool is_alone = sum != nullptr && node.output_count == 1 && node.input_count == 1;
      if (is_alone && sum->attributes().along.axis == 0 && sum->attributes().count == 0) {
        sums_[recorded_.inputs(node)[0]] = &node;
      }
    }
  }

  // Nodes that compute what a recorded one does.

  /// The outputs of a recorded node applied to parts; none if the node is not one.
  Parts recorded_outputs(NodeId id, const Parts& inputs) const {
    const NodeId of = divided_.recorded_node(id);
    if (of == kNoNode) return {};
    const Node& node = recorded_.node(of);
    const auto values = recorded_.inputs(node);
    if (inputs.size() < values.size() || inputs.size() > values.size() + 1) return {};
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (inputs[i].of != values[i]) return {};
    }
    Parts given = inputs;
    for (Part& input : given) input = input.kind == Kind::piece ? input : rows_of(input);
    Parts made = outputs_of_parts(id, node, given);
    if (!made.empty()) return made;
    for (Part& input : given) input = rows_of(input);
    return outputs_of_parts(id, node, given);
  }

  Parts outputs_of_parts(NodeId id, const Node& recorded, const Parts& inputs) const {
    std::vector<Layout> layouts;
    for (const Part& input : std::span(inputs).first(static_cast<std::size_t>(recorded.input_count))) {
      layouts.push_back(layout_of(input));
    }
    const NodeId of = divided_.recorded_node(id);
    const auto input_descs = recorded_.input_descs(of), output_descs = recorded_.output_descs(of);
    std::optional<Divided> rule =  // nothing: all of it
        recorded.op->divide({{input_descs, output_descs}, layouts, static_cast<int>(shards_)});
    const Node& node = graph_.node(id);
    const Divided all{.inputs = std::vector(layouts.size(), Layout::replicated),
                      .outputs = std::vector(static_cast<std::size_t>(recorded.output_count), Layout::replicated)};
    if (!rule.has_value()) rule = all;
    const Op& op = rule->op != nullptr ? *rule->op : *recorded.op;
    // One shard computes its part, or a rank updates the parts of all its shards together.
    const bool has_shard = 0 <= node.shard && node.shard < per_rank_;
    if (has_shard && is_applied(id, op, inputs, *rule, node.shard)) return outputs(recorded, *rule, node.shard);
    if (rule->op != nullptr || std::ranges::any_of(rule->outputs, is_partial)) return {};
    return is_applied(id, op, inputs, *rule, std::nullopt) ? outputs(recorded, *rule, std::nullopt) : Parts{};
  }

  static Layout layout_of(const Part& part) {
    switch (part.kind) {
      case Kind::rows: return part.layout.without_halo();
      case Kind::summand: return part.layout;
      case Kind::piece: return Layout::pieces;
      default: return Layout::replicated;
    }
  }

  /// Whether a node is this op, applied to the inputs that a shard needs, or all shards of a rank.
  bool is_applied(NodeId id, const Op& op, const Parts& inputs, const Divided& rule,
                  std::optional<std::int64_t> shard) const {
    const Node& node = graph_.node(id);
    if (!node.op->equals(op)) return false;
    const std::size_t given =
        rule.number.has_value() ? std::max(*rule.number + 1, rule.inputs.size()) : rule.inputs.size();
    if (inputs.size() != given) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (rule.number == i) {
        const ValueId of = i < rule.inputs.size() ? recorded_.inputs(divided_.recorded_node(id))[i] : kNoValue;
        if (inputs[i].kind != Kind::number || inputs[i].of != of || inputs[i].shard != shard) return false;
      } else {
        const double factor = rule.factors.empty() ? 1 : rule.factors[i];
        if (!has_shape(graph_.inputs(node)[i], inputs[i])) return false;
        if (!is_needed(inputs[i], rule.inputs[i], shard, factor, rule.fill)) return false;
      }
    }
    return true;
  }

  /// Whether a part is what a shard needs of a value, or, without a shard, a rank.
  bool is_needed(const Part& part, Layout layout, std::optional<std::int64_t> shard, double factor, double fill) const {
    if (part.outer != 1) return false;
    if (layout == Layout::replicated) return is_whole(part, factor);
    if (layout == Layout::pieces) return part.kind == Kind::piece;
    if (is_partial(layout)) {
      return part.kind == Kind::summand && part.layout == layout && part.shard == shard && part.added == 0;
    }
    if (part.kind != Kind::rows || part.layout.axis != layout.axis) return false;
    const Rows of_rank = rows_of_rank(part.of, layout.axis);
    const Rows needed = shard.has_value() ? reach(part.of, layout, *shard) : of_rank;
    return part.rows == needed && (of_rank.contain(needed) || part.number == fill);
  }

  /// Whether a part is all of a value, or what a rank has instead of it.
  bool is_whole(const Part& part, double factor = 1) const {
    return is_everywhere(part, factor) || (is_own(part) && factor == 1);
  }
  static bool is_everywhere(const Part& part, double factor = 1) {
    return part.kind == Kind::whole && part.outer == 1 && part.number == factor;
  }
  /// Whether ranks keep a mean to themselves (Partition::local).
  bool is_own(const Part& part) const {
    if (!partition_.local || part.kind != Kind::summand || part.layout != Layout::partial_mean) return false;
    const NodeId producer = recorded_.value(part.of).producer;
    const bool is_exchanged = producer != kNoNode && op_of<AverageOverRanks>(recorded_.node(producer)) != nullptr;
    return !is_exchanged && part.outer == 1 && part.added == 0 && shape(part.of).size() != 1;
  }

  /// Whether a value has the type and shape of its part, which reshapes and casts may have changed.
  bool has_shape(ValueId here, const Part& part) const {
    if (part.of == kNoValue) return true;
    ValueDesc expected = recorded_.value(part.of).desc;
    if (part.kind == Kind::piece) expected.shape = {piece_of(expected.shape.size(), along_.ranks)};
    if (part.kind == Kind::rows || part.kind == Kind::border) {
      expected.shape = expected.shape.with(part.layout.axis, part.rows.end - part.rows.begin);
    }
    return graph_.value(here).desc == expected;
  }

  Parts outputs(const Node& recorded, const Divided& rule, std::optional<std::int64_t> shard) const {
    Parts made;
    for (const Layout layout : rule.outputs)
      made.push_back(part_of(recorded.first_output + std::ssize(made), layout, shard));
    return made;
  }

  // Nodes that rearrange, exchange or add parts.

  Parts rearranged(NodeId id, const Parts& given) const {
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
      if (!is_same(gather->attributes(), along_) || !are_of_all_shards(inputs, x.layout.axis)) return {};
      return {{.kind = Kind::whole, .of = x.of, .outer = outer_size(shape(x.of), x.layout.axis)}};
    }
    if (const auto* exchange = op_of<AllToAll>(node)) {
      const auto& [along, from, to] = exchange->attributes();
      if (!is_same(along, along_) || !are_of_all_shards(inputs, from)) return {};
      Parts made;
      for (std::int64_t s = 0; s < per_rank_; ++s) made.push_back(shard_rows(x.of, static_cast<int>(to), s));
      return made;
    }
    return {};
  }

  Part number_of(const ShardIndex& number, const Parts& inputs) const {
    if (!is_same(number.along, along_) || number.per_rank != per_rank_) return {};
    if (inputs.size() == 1 && !is_whole(inputs[0])) return {};
    return {.kind = Kind::number, .of = inputs.empty() ? kNoValue : inputs[0].of, .shard = number.index};
  }

  Part scaled(Part x, double factor) const {
    const bool is_own_sum = partition_.local && x.kind == Kind::summand && x.layout == Layout::partial_sum;
    if (is_own_sum && factor == static_cast<double>(shards_)) return whole(x.of);
    if (x.kind != Kind::whole) return {};
    x.number *= factor;
    return x;
  }

  /// Shards become the outermost axis, or what they were.
  Part swapped(NodeId id, Part x, const PermuteAttributes& permute) const {
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
  std::optional<int> axis_before(ValueId of, std::int64_t outer) const {
    const Shape& x = shape(of);
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (outer_size(x, axis) == outer && splits(of, axis)) return axis;
    }
    return std::nullopt;
  }

  /// Pieces, and borders that no neighbour adds to, as the rows that they are.
  Part rows_of(const Part& x) const {
    if (x.kind == Kind::piece) {
      const std::optional<int> axis = axis_before(x.of, x.outer);
      const bool is_in_order = axis == 0 || (axis.has_value() && per_rank_ == 1);
      return is_in_order ? rows(x.of, *axis, rows_of_rank(x.of, *axis)) : x;
    }
    if (x.kind == Kind::border) return completed(std::span(&x, 1)).value_or(x);
    return x;
  }

  /// Some of the rows of a part. The rows that a border loses are then taken to be zero.
  Part cut(NodeId id, Part x, const WindowAttributes& window) const {
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
  std::optional<Part> completed(std::span<const Part> borders) const {
    const Part& first = borders.front();
    const std::int64_t each = this->each(first.of, first.layout.axis);
    if (each == 0 || first.rows.begin < 0 || first.layout.below > each || first.layout.above > each)
      return std::nullopt;
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

  Part with_neighbours(const Parts& inputs) const {
    Parts summands;
    for (const Part& input : inputs) {
      if (input.kind != Kind::filling || input.number != 0) summands.push_back(input);
    }
    if (summands.size() == 1) return rows_of(summands.front());
    return summands.empty() ? Part{} : completed(summands).value_or(Part{});
  }

  /// Rows that follow one another, and what is outside of the value.
  Part joined(NodeId id, const Parts& inputs, const ConcatAttributes& concat) const {
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
  Part of_neighbour(Part x, const Part& filling, const FromNeighbourAttributes& from) const {
    if (!is_same(from.along, along_) || filling.kind != Kind::filling) return {};
    if (x.kind != Kind::rows && x.kind != Kind::border) return {};
    const Rows of_rank = rows_of_rank(x.of, x.layout.axis);
    if (x.kind == Kind::rows ? !of_rank.contain(x.rows) : filling.number != 0) return {};
    x.shard += from.from * per_rank_;
    x.rows = x.rows.shifted(from.from * of_rank.end);
    x.known = x.known.shifted(from.from * of_rank.end);
    x.number = filling.number;
    return x;
  }

  Part cut_out(const Part& x, const MeshRanks& along) const {
    return is_same(along, along_) && is_everywhere(x) ? Part{.kind = Kind::piece, .of = x.of} : Part{};
  }

  Parts gathered(const Parts& pieces, const GatherPiecesAttributes& gather) const {
    Parts made;
    for (const Part& piece : pieces) {
      const bool is_piece = piece.kind == Kind::piece && piece.outer == 1 && is_same(gather.along, along_) &&
                            shape(piece.of).size() == gather.sizes[made.size()];
      made.push_back(is_piece ? whole(piece.of) : Part{});
    }
    return made;
  }

  Part taken(const Part& x, const Part& number, const Shards& shards) const {
    const bool is_number = number.kind == Kind::number && number.of == kNoValue && shards.shards == shards_;
    const bool is_whole = x.kind == Kind::whole && x.number == 1;
    const std::optional<int> axis = is_whole ? axis_before(x.of, x.outer) : std::nullopt;
    return is_number && axis.has_value() ? shard_rows(x.of, *axis, number.shard) : Part{};
  }

  /// Whether each shard of this rank has its rows, in their order.
  bool are_of_all_shards(const Parts& inputs, std::int64_t axis) const {
    if (std::ssize(inputs) != per_rank_) return false;
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      const Part& x = inputs[s];
      if (x.kind != Kind::rows || x.of != inputs[0].of || x.layout.axis != axis) return false;
      if (x.rows != own_rows(x.of, x.layout.axis, static_cast<std::int64_t>(s))) return false;
    }
    return true;
  }

  /// Sums and means of what all shards have; or, of a sum along the other axis as well, of those along both.
  Parts added(const Node& node, const Parts& inputs, const AllReduceAttributes& sum, bool scatters) const {
    const bool is_joined = sum.along.axis == MeshRanks::kBothAxes;
    const MeshRanks both{partition_.ranks, 1, MeshRanks::kBothAxes};
    if (!is_same(sum.along, is_joined ? both : along_) || sum.exact != partition_.exact) return {};
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
  Parts assigned(const Parts& inputs) const {
    Parts made;
    for (std::size_t i = 0; i + 1 < inputs.size(); i += 2) {
      const ValueId next = inputs[i + 1].of;
      const bool follows = next != kNoValue && recorded_.value(next).previous == inputs[i].of && is_whole(inputs[i]) &&
                           is_whole(inputs[i + 1]);
      made.push_back(follows ? whole(next) : Part{});
    }
    return made;
  }

  // Sentences.

  /// Persistent tensors have the last versions recorded, and kept values are there.
  std::string fault_of_results() {
    std::map<std::int32_t, std::vector<ValueId>> newest;  // of each persistent tensor
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.slot >= 0 && value.root == id && !graph_.is_overwritten(id)) newest[value.slot].push_back(id);
    }
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      const Value& value = recorded_.value(id);
      if (value.slot < 0 || value.root != id || recorded_.is_overwritten(id)) continue;
      if (newest[value.slot].size() != 1) return message("Persistent tensor ", value.slot, " has no newest version.");
      const ValueId here = newest[value.slot].front();
      const Part &its = part(here), expected = source(first_version(id));
      const bool lies_so = expected.kind == Kind::whole  ? is_whole(its)
                           : expected.kind == Kind::rows ? its.layout == expected.layout && its.rows == expected.rows
                                                         : its.outer == 1;
      const bool is_alike = expected.kind == Kind::whole || its.kind == expected.kind;
      if (its.of != id || !is_alike || !lies_so) {
        return message("Persistent tensor ", value.slot, " ends as value ", here, ", which is ", description(its), '.');
      }
    }
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      const Value& value = recorded_.value(id);
      const ValueId here = divided_.value(id);
      const bool is_kept = recorded_.value(value.root).kept;
      if (here == kNoValue ? is_kept : is_kept && !graph_.value(graph_.value(here).root).kept) {
        return message("Nothing that is kept stands for value ", id, '.');
      }
      if (here == kNoValue) continue;
      const Part& its = part(here);
      const bool may_be_own = !is_kept || value.previous != kNoValue;
      const bool lies_so = value.kind == ValueKind::input || (may_be_own ? is_whole(its) : is_everywhere(its));
      if (its.of != id || !lies_so || !has_shape(here, its)) {
        return message("Value ", here, " stands for value ", id, " as recorded, but is ", description(its), '.');
      }
    }
    return "";
  }

  ValueId first_version(ValueId recorded) const {
    while (recorded_.value(recorded).previous != kNoValue) recorded = recorded_.value(recorded).previous;
    return recorded;
  }

  std::string fault(NodeId id, const Parts& inputs) const {
    std::string found;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      found += message(i > 0 ? ", " : "", "value ", graph_.inputs(id)[i], ": ", description(inputs[i]));
    }
    return message("Node ", id, " '", graph_.node(id).op->name(), "' is neither recorded node ",
                   divided_.recorded_node(id), " applied to a part nor does it move or add parts. It takes ", found,
                   '.');
  }

  std::string description(const Part& x) const {
    const std::string of = message(" of recorded value ", x.of);
    switch (x.kind) {
      case Kind::whole: return "all" + of;
      case Kind::rows:
        return message("rows ", x.rows.begin, " to ", x.rows.end, " along axis ", static_cast<int>(x.layout.axis), of);
      case Kind::border: return message("what shard ", x.shard, " adds to rows ", x.rows.begin, " to ", x.rows.end, of);
      case Kind::summand: return message("the summand of shard ", x.shard, of);
      case Kind::piece: return "the piece" + of;
      case Kind::number: return message("the number of shard ", x.shard);
      case Kind::filling: return message("filled with ", x.number);
      default: return "unknown";
    }
  }

  const StepGraph& recorded_;
  const RewrittenGraph& divided_;
  const StepGraph& graph_;
  const Partition& partition_;
  const std::size_t axis_;  // of the mesh
  const MeshRanks along_;
  const std::int64_t shards_, per_rank_;
  Parts parts_;                          // per value of the divided graph
  std::map<ValueId, const Node*> sums_;  // recorded: what is summed → its all-reduction
};

}  // namespace

std::string check_partition(const StepGraph& recorded, const RewrittenGraph& divided, const Partition& partition,
                            std::size_t axis) {
  // Shapes do not tell the axes of a value without elements apart, nor those that one shard has all of.
  const bool is_empty =
      std::ranges::any_of(recorded.values(), [](const Value& value) { return value.desc.shape.size() == 0; });
  if (is_empty || partition.mesh().shards_along(axis) == 1) return "";
  return PartitionCheck(recorded, divided, partition, axis).run();
}

}  // namespace braid::ops
