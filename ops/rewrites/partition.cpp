#include "ops/rewrites/partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "ops/elementwise/elementwise.h"
#include "ops/layout/reshape.h"
#include "ops/layout/strided_copy.h"
#include "ops/optimizer/assign.h"
#include "ops/rewrites/shard_copy.h"

namespace braid::ops {

namespace {

/// How a recorded value lies, and where it is in the graph of a rank.
struct Place {
  Layout layout = Layout::replicated;
  bool needed_whole = false, needed_in_pieces = false, needed_as_it_lies = false;
  bool is_own = false;       // partial, and nodes read what this rank has of it (Partition::local)
  ValueId own = kNoValue;    // that, as if it were of all ranks; kNoValue: not yet, or never
  ValueId whole = kNoValue;  // on every rank; kNoValue: not yet, or never
  ValueId piece = kNoValue;  // of this rank: the rows if it is split, else the piece; kNoValue: not yet, or never
  std::int64_t joined = 0;   // a sum along both axes of the mesh, and its divisor along the first; else 0
  std::vector<ValueId> parts = {};  // parts of the shards of this rank, as laid out; empty: not yet, or never
  std::map<std::pair<Layout, double>, std::vector<ValueId>> other_parts = {};  // as readers need them, with their fill
};

/// Tensors in pieces that follow one another are gathered together, up to this many bytes.
constexpr std::int64_t kGathered = std::int64_t{4} << 20;

class Partitioner {
 public:
  Partitioner(const StepGraph& recorded, const Partition& partition, std::size_t axis)
      : recorded_(recorded),
        partition_(partition),
        axis_(axis),
        is_last_(axis + 1 == partition.mesh().axes()),
        along_(partition.along(axis)),
        ranks_(along_.ranks),
        shards_(partition.mesh().shards_along(axis)),
        per_rank_(shards_ / ranks_),
        places_(recorded.value_count()),
        rules_(recorded.node_count()),
        copy_(recorded, along_) {}

  RewrittenGraph run() {
    lay_out();
    const auto add_node = [this](NodeId id) {
      const Node& node = recorded_.node(id);
      copy_.begin(id);
      rules_[id].has_value() ? emit_parts(node, *rules_[id]) : emit_one(node, nullptr);
    };
    copy_.in_order(add_node, [this](ValueId id) { add_source(id); });
    return finish();
  }

 private:
  Place& place(ValueId value) { return places_[value]; }

  // Layouts, in recording order, and which values are needed whole.

  void lay_out() {
    std::vector<bool> read(places_.size());
    for (const Node& node : recorded_.nodes()) {
      for (const ValueId input : recorded_.inputs(node)) read[recorded_.value(input).root] = true;
    }
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      place(id).layout = recorded_.value(id).layouts[axis_];
    }
    for (NodeId id = 0; id < recorded_.node_count(); ++id) {
      const Node& node = recorded_.node(id);
      std::vector<Layout> layouts;
      for (const ValueId input : recorded_.inputs(node)) layouts.push_back(place(input).layout);
      const auto inputs = recorded_.input_descs(id), outputs = recorded_.output_descs(id);
      rules_[id] = divided(id, {inputs, outputs}, layouts);
      const std::optional<Divided>& rule = rules_[id];
      for (std::size_t i = 0; i < layouts.size(); ++i) {
        const Layout wanted = rule.has_value() ? rule->inputs[i] : Layout::replicated;
        Place& input = place(recorded_.inputs(node)[i]);
        if ((wanted == Layout::pieces || wanted == Layout::split) && is_partial(layouts[i])) {
          input.needed_in_pieces = true;
        } else if (wanted.is_split() && !wanted.has_halo() && is_partial(layouts[i])) {
          // scattered along another axis, where it is read
        } else if (wanted.is_split() && layouts[i].is_split()) {
          // exchanged where it is read, if along another axis
        } else if (wanted.without_halo() != layouts[i] && !input.is_own) {
          input.needed_whole = true;
        } else if (is_partial(layouts[i])) {
          input.needed_as_it_lies = true;
          // A single element is not needed whole before it is added along both axes.
          const Value& value = recorded_.value(recorded_.inputs(node)[i]);
          if (axis_ > 0 && value.desc.shape.size() == 1 && !kept(value)) input.needed_whole = false;
        }
      }
      bool any_read = false;
      for (int i = 0; i < node.output_count; ++i) {
        const ValueId output = recorded_.output(id, i);
        any_read = any_read || read[recorded_.value(output).root];
        if (rule.has_value()) place(output).layout = rule->outputs[i].without_halo();
        const bool is_exchanged = !partition_.local || dynamic_cast<const AverageOverRanks*>(node.op.get()) != nullptr;
        const bool is_element = recorded_.value(output).desc.shape.size() == 1;  // which all ranks share in any case
        place(output).is_own = !is_exchanged && !is_element && is_partial(place(output).layout);
      }
      for (int i = 0; i < node.output_count; ++i) {
        const ValueId output = recorded_.output(id, i);
        const Value& value = recorded_.value(output);
        // A node without readers is recorded for its results; unread outputs of other nodes are not results.
        const bool result = !any_read && !node.is_view;
        // No node reads the elements of such a tensor individually.
        const bool in_pieces = rule.has_value() && is_update(node, *rule) && place(output).layout != Layout::replicated;
        const bool is_version = value.previous != kNoValue;
        if (is_version && place(output).is_own) continue;  // ranks have different ones
        if (kept(value) || (!in_pieces && (value.desc.shape.size() == 1 || is_version || result))) {
          place(output).needed_whole = true;
        }
      }
    }
  }

  /// How a node is divided: along the axis given for it, else along the one that its inputs are split along. Persistent
  /// tensors keep their layouts.
  std::optional<Divided> divided(NodeId id, const NodeValues& values, std::vector<Layout> layouts) const {
    const Op& op = *recorded_.node(id).op;
    const char axis = recorded_.node(id).axes[axis_];
    if (axis != 0) layouts = layouts_along(axis, op, values, layouts);
    std::optional<Divided> rule = op.divide({values, layouts, static_cast<int>(shards_)});
    if (!rule.has_value()) return std::nullopt;
    for (int i = 0; i < recorded_.node(id).output_count; ++i) {
      const ValueId previous = recorded_.value(recorded_.output(id, i)).previous;
      const Layout made = rule->outputs[i];
      // The outputs of an op for parts are new values.
      if (previous == kNoValue || !made.is_split() || rule->op != nullptr) continue;
      if (made != places_[recorded_.first_version(previous)].layout) return std::nullopt;
    }
    // A sum along the first axis is rounded to 16 bits after it has been added along the second, too.
    const bool rounds =
        dynamic_cast<const Cast*>(&op) != nullptr && size_of(values.outputs[0].dtype) < size_of(values.inputs[0].dtype);
    if (axis_ > 0 && rounds && is_partial(rule->outputs[0])) return std::nullopt;
    return rule;
  }

  /// Whether every rank updates its parts of tensors (divide_by_tensors).
  bool is_update(const Node& node, const Divided& rule) const {
    for (int i = 0; i < node.output_count; ++i) {
      const Layout made = rule.outputs[i];
      const bool overwrites = recorded_.value(node.first_output + i).previous != kNoValue && rule.op == nullptr;
      if (made == Layout::pieces || (made.is_split() && overwrites)) return true;
    }
    return false;
  }

  // The graph of this rank.

  void add_source(ValueId id) {
    Place& its = place(id);
    if (its.piece != kNoValue) return;
    Value value = recorded_.value(id);
    Shape& shape = value.desc.shape;
    const Layout layout = value.layouts[axis_];
    if (layout == Layout::pieces) shape = {piece_of(shape.size(), ranks_)};
    if (layout == Layout::split) shape = shape.with(0, shape[0] / ranks_);
    (layout == Layout::replicated ? its.whole : its.piece) = copy_.add_source(id, value);
  }

  /// A node that every rank computes whole, or for its parts of tensors.
  void emit_one(const Node& node, const Divided* rule) {
    std::vector<ValueId> inputs;
    for (const ValueId input : recorded_.inputs(node)) {
      const Layout wanted = rule != nullptr ? rule->inputs[inputs.size()] : Layout::replicated;
      inputs.push_back(wanted == Layout::replicated ? read(input) : piece(input, wanted));
    }
    const ValueId first = copy_.add_node(copy_.made_of(), inputs);
    for (int i = 0; i < node.output_count; ++i) {
      Place& its = place(node.first_output + i);
      const bool is_whole = rule == nullptr || rule->outputs[i] == Layout::replicated;
      (is_whole ? its.whole : its.piece) = first + i;
    }
  }

  void emit_parts(const Node& node, const Divided& rule) {
    if (is_update(node, rule)) return emit_one(node, &rule);
    const auto inputs = recorded_.inputs(node);
    if (const std::int64_t divisor = joins(node, rule); divisor > 0) {
      Place& its = place(node.first_output);
      its.joined = divisor;
      its.parts = parts(inputs[0], rule.inputs[0]);
      return await(node.first_output);
    }
    std::vector<std::vector<ValueId>> of_shards(per_rank_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_whole = rule.inputs[i] == Layout::replicated;
      ValueId shared = is_whole ? read(inputs[i]) : kNoValue;
      if (is_whole && !rule.factors.empty() && rule.factors[i] != 1) {
        shared = copy_.add(std::make_shared<Scale>(rule.factors[i]), {shared}, recorded_.value(node.first_output).kind,
                           copy_.made_of());
      }
      for (std::int64_t s = 0; s < per_rank_; ++s) {
        of_shards[s].push_back(is_whole ? shared : parts(inputs[i], rule.inputs[i], rule.fill)[s]);
      }
    }
    for (std::int64_t s = 0; s < per_rank_; ++s) {
      copy_.set_shard(static_cast<std::int16_t>(s));
      std::vector<ValueId>& own = of_shards[s];
      if (rule.number.has_value()) {
        const ValueId divided = *rule.number < own.size() ? std::exchange(own[*rule.number], kNoValue) : kNoValue;
        own.resize(*rule.number + 1);
        own.back() = number(s, divided);
      }
      const ValueId first = copy_.add_node(copy_.made_of(), own, rule.op);
      for (int i = 0; i < node.output_count; ++i) place(node.first_output + i).parts.push_back(first + i);
    }
    copy_.set_shard(Node::kNoShard);
    for (int i = 0; i < node.output_count; ++i) {
      const ValueId output = node.first_output + i;
      Place& its = place(output);
      if (const Layout made = rule.outputs[i]; made.has_halo()) {
        its.parts = copy_.add_halos(its.parts, made);
      }
      if (its.is_own && recorded_.value(output).previous != kNoValue) own(output);
      if (is_partial(its.layout) && (its.needed_whole || its.needed_in_pieces)) await(output);
    }
  }

  /// Whether a sum along the first axis is one along the second, too, and can be all-reduced along both at once; then
  /// its divisor, else 0. A sum that is scattered where it is read is first all-reduced along the first axis.
  std::int64_t joins(const Node& node, const Divided& rule) const {
    const auto* sum = dynamic_cast<const AllReduce*>(node.op.get());
    if (sum == nullptr || sum->attributes().along.axis == static_cast<std::int64_t>(axis_) || partition_.exact)
      return 0;
    const Place& its = places_[node.first_output];
    const bool is_sum =
        is_partial(rule.outputs[0]) && its.needed_whole && !its.needed_as_it_lies && !its.needed_in_pieces;
    return is_sum && node.output_count == 1 ? sum->attributes().divisors.front() : 0;
  }

  /// The number of a shard of this rank; or of a part of another shard, whose number is given.
  ValueId number(std::int64_t shard, ValueId divided = kNoValue) {
    const auto [found, is_new] = numbers_.try_emplace({shard, divided}, kNoValue);
    if (!is_new) return found->second;
    std::vector<ValueId> inputs;
    if (divided != kNoValue) inputs.push_back(divided);
    found->second = copy_.add(std::make_shared<ShardNumber>(shard, per_rank_, along_), inputs, ValueKind::activation,
                              copy_.made_of());
    return found->second;
  }

  /// The parts of a value that the shards of this rank need.
  const std::vector<ValueId>& parts(ValueId value, Layout layout, double fill = 0) {
    Place& here = place(value);
    if (layout == here.layout && !here.parts.empty()) return here.parts;
    const auto [found, is_new] = here.other_parts.try_emplace({layout, layout.has_halo() ? fill : 0});
    if (is_new && layout.has_halo()) {
      found->second = copy_.with_halos(parts(value, layout.without_halo()), layout, fill);
    } else if (is_new) {
      found->second = own_parts(value, layout);
    }
    return found->second;
  }

  std::vector<ValueId> own_parts(ValueId value, Layout layout) {
    std::vector<ValueId> made;
    if (layout == Layout::split) reduce_scattered(value);
    if (const ValueId own = place(value).piece;
        own != kNoValue && layout == Layout::split && place(value).layout != Layout::pieces) {
      const Shape& x = recorded_.value(value).desc.shape;
      const std::int64_t each = x[0] / shards_;
      const Shape own_rows = x.with(0, each * per_rank_);
      const ValueId all = copy_.reshaped(own, own_rows);
      for (std::int64_t s = 0; s < per_rank_; ++s)
        made.push_back(split_again(value, copy_.rows(all, 0, s * each, each)));
      return made;
    }
    if (const Place& its = place(value); is_partial(its.layout) && !its.is_own && !its.needed_whole) {
      return scattered(value, layout.axis);
    } else if (its.layout.is_split() && !its.needed_whole) {
      return exchanged(value, layout.axis);
    }
    ValueId by_shard = read(value);
    if (const int axis = layout.axis; axis > 0) {  // shards become the outermost axis
      const Shape x = copy_.desc(by_shard).shape, part = x.with(axis, x[axis] / shards_);
      const std::int64_t outer = x.size_between(0, axis);
      by_shard = copy_.reshaped(copy_.swapped(by_shard, outer, shards_), part.with(0, part[0] * shards_));
    }
    for (std::int64_t s = 0; s < per_rank_; ++s) {
      made.push_back(
          copy_.add(std::make_shared<ShardRows>(shards_), {by_shard, number(s)}, kind(value), copy_.made_of()));
    }
    return made;
  }

  /// The parts along an axis of a sum or mean of which no rank needs all: with the shards as the outermost axis, they
  /// are pieces.
  std::vector<ValueId> scattered(ValueId value, int axis) {
    const Shape& x = recorded_.value(value).desc.shape;
    const DType dtype = recorded_.value(value).desc.dtype;
    const std::int64_t outer = x.size_between(0, axis);
    std::vector<ValueId> leaves;
    for (const ValueId part : place(value).parts)
      leaves.push_back(copy_.swapped(as(computed_in(dtype), part, value), outer, shards_));
    const ValueId piece = copy_.apply(std::make_shared<ReduceScatter>(sums({divisor(value)}, false)), leaves);
    const Shape part = x.with(axis, x[axis] / shards_);
    const ValueId all = as(dtype, copy_.reshaped(piece, part.with(0, part[0] * per_rank_)), value);
    std::vector<ValueId> made;
    for (std::int64_t s = 0; s < per_rank_; ++s) made.push_back(copy_.rows(all, 0, s * part[0], part[0]));
    return made;
  }

  /// The parts along an axis of a value that is split along another and that no rank needs whole.
  std::vector<ValueId> exchanged(ValueId value, int axis) {
    const Layout from = place(value).layout;
    std::vector<ValueId> made(per_rank_);
    std::iota(made.begin(), made.end(),
              copy_.apply(std::make_shared<AllToAll>(along_, from.axis, axis), parts(value, from)));
    return made;
  }

  /// Rows of a source for one of several shards. If the source is split along the next axis, so are they: whether a
  /// rank has several shards must not change how later nodes are divided.
  ValueId split_again(ValueId source, ValueId rows) {
    if (is_last_ || per_rank_ == 1 || recorded_.value(source).layouts[axis_ + 1] != Layout::split) return rows;
    const ValueId viewed = copy_.apply(std::make_shared<Reshape>(copy_.desc(rows).shape), {rows});
    PerMeshAxis<char> axes{};
    axes[axis_ + 1] = 'n';
    copy_.graph().divide_along(copy_.graph().node_count() - 1, axes);
    return viewed;
  }

  /// The root of a kept value is marked as kept.
  bool kept(const Value& value) const { return recorded_.value(value.root).kept; }
  ValueKind kind(ValueId value) const { return recorded_.value(value).kind; }
  NodeId producer(ValueId value) const {
    const NodeId producer = recorded_.value(value).producer;
    return producer == kNoNode ? copy_.made_of() : producer;
  }
  /// Adds a node for what a recorded value becomes.
  ValueId add_for(ValueId recorded, OpPtr op, const std::vector<ValueId>& inputs) {
    return copy_.add(std::move(op), inputs, kind(recorded), producer(recorded));
  }

  /// What nodes read that need all elements of a value.
  ValueId read(ValueId value) { return place(value).is_own ? own(value) : whole(value); }

  /// What this rank has of a sum or mean, as if all ranks had the same.
  ValueId own(ValueId value) {
    Place& here = place(value);
    if (here.own != kNoValue) return here.own;
    const ValueId part = here.parts.front(), previous = recorded_.value(value).previous;
    const auto factor = static_cast<double>(shards_);
    here.own = here.layout == Layout::partial_sum ? add_for(value, std::make_shared<Scale>(factor), {part}) : part;
    if (previous != kNoValue) here.own = add_for(value, std::make_shared<Assign>(), {read(previous), here.own});
    return here.own;
  }

  /// A value with all its elements.
  ValueId whole(ValueId value) {
    Place& here = place(value);
    if (here.whole != kNoValue) return here.whole;
    if (is_partial(here.layout)) {
      reduce();
    } else if (here.layout == Layout::pieces) {
      gather(value);
    } else {
      here.whole = add_for(value, std::make_shared<AllGather>(along_), parts(value, here.layout));
      const Value& its = recorded_.value(value);
      if (const int axis = here.layout.axis; axis > 0) {  // shards are the outermost axis
        const Shape& x = its.desc.shape;
        here.whole = copy_.reshaped(copy_.swapped(here.whole, shards_, x.size_between(0, axis)), x);
      }
      if (its.previous != kNoValue && place(recorded_.first_version(value)).layout == Layout::replicated) {
        here.whole = add_for(value, std::make_shared<Assign>(), {whole(its.previous), here.whole});
      }
    }
    return here.whole;
  }

  /// The elements of a value that this rank updates: its rows, or its piece.
  ValueId piece(ValueId value, Layout layout) {
    Place& here = place(value);
    if (layout.is_split()) {
      const bool has_rows = here.layout == layout && here.piece != kNoValue;
      return has_rows ? here.piece : copy_.join(parts(value, layout), layout.axis);
    }
    reduce_scattered(value);
    if (here.piece == kNoValue) here.piece = add_for(value, std::make_shared<OwnPiece>(along_), {whole(value)});
    return here.piece;
  }

  /// Whether no rank needs the whole sum.
  bool is_scattered(ValueId value) const {
    const Place& its = places_[value];
    return is_partial(its.layout) && its.needed_in_pieces && !its.needed_whole;
  }

  void reduce_scattered(ValueId value) {
    if (is_scattered(value) && place(value).piece == kNoValue) reduce();
  }

  /// Gathers a tensor in pieces; if no node has written it, together with those that the step reads next.
  void gather(ValueId value) {
    const Value& first = recorded_.value(value);
    std::vector<ValueId> together{value};
    auto bytes = static_cast<std::int64_t>(first.bytes());
    for (ValueId next = value + 1; next < recorded_.value_count() && first.producer == kNoNode; ++next) {
      const Value& its = recorded_.value(next);
      if (its.layouts[axis_] != Layout::pieces || its.desc.dtype != first.desc.dtype || !place(next).needed_whole)
        continue;
      if (place(next).whole != kNoValue) continue;
      bytes += static_cast<std::int64_t>(its.bytes());
      if (bytes > kGathered) break;
      together.push_back(next);
    }
    std::vector<std::int64_t> sizes;
    std::vector<ValueId> pieces;
    for (const ValueId each : together) {
      if (first.producer == kNoNode) add_source(each);
      sizes.push_back(recorded_.value(each).desc.shape.size());
      pieces.push_back(place(each).piece);
    }
    const ValueId flat = copy_.add(std::make_shared<GatherPieces>(along_, std::move(sizes)), pieces,
                                   ValueKind::activation, producer(value));
    for (std::size_t i = 0; i < together.size(); ++i) {
      const ValueId its = flat + static_cast<ValueId>(i);
      if (partition_.gathers_again) copy_.graph().recompute(its);
      place(together[i]).whole = copy_.add(std::make_shared<Reshape>(recorded_.value(together[i]).desc.shape), {its},
                                           ValueKind::activation, producer(value));
    }
  }

  /// Notes that the sum or mean will be needed.
  void await(ValueId value) {
    const auto bytes = static_cast<std::int64_t>(recorded_.value(value).bytes());
    if (!is_last_) {  // the next axis may add it along both
      awaited_.push_back(value);
      return reduce();
    }
    if (partition_.slice_bytes > 0 && bytes > partition_.slice_bytes && can_slice(value)) return reduce_slices(value);
    awaited_.push_back(value);
    awaited_bytes_ += bytes;
    const std::span<const std::int32_t> buckets = partition_.buckets;
    if (buckets.empty()) {
      if (awaited_bytes_ >= partition_.bucket_bytes) reduce();
    } else if (bucket_ < buckets.size() && ++in_bucket_ == buckets[bucket_]) {
      ++bucket_;
      in_bucket_ = 0;
      reduce();
    }
  }

  bool can_slice(ValueId value) const {
    const Value& its = recorded_.value(value);
    return !is_scattered(value) && its.previous == kNoValue && its.desc.dtype == computed_in(its.desc.dtype);
  }

  AllReduceAttributes sums(std::vector<std::int64_t> divisors, bool joined) const {
    MeshRanks along = along_;
    if (joined) along = {partition_.ranks, 1, MeshRanks::kBothAxes};
    return {along, joined ? partition_.shards : shards_, partition_.exact, std::move(divisors)};
  }
  std::int64_t divisor(ValueId value) const {
    const Place& its = places_[value];
    return std::max<std::int64_t>(its.joined, 1) * (its.layout == Layout::partial_mean ? shards_ : 1);
  }

  /// Communicates one slice after another, in place.
  void reduce_slices(ValueId value) {
    const Value& its = recorded_.value(value);
    const std::int64_t size = its.desc.shape.size(),
                       most = partition_.slice_bytes / static_cast<std::int64_t>(size_of(its.desc.dtype));
    std::vector<ValueId> leaves = place(value).parts;
    for (std::int64_t begin = 0; begin < size; begin += most) {
      AllReduceAttributes slice = sums({divisor(value)}, place(value).joined > 0);
      slice.begin = begin;
      slice.count = std::min(most, size - begin);
      leaves.front() = add_for(value, std::make_shared<AllReduce>(slice), leaves);
    }
    place(value).whole = leaves.front();
  }

  /// Communicates all awaited values, separately by type, and scattered and joined ones separately. 16-bit values are
  /// added in f32.
  void reduce() {
    std::vector<ValueId> waiting = std::exchange(awaited_, {});
    awaited_bytes_ = 0;
    const auto type = [&](ValueId value) {
      return std::tuple(computed_in(recorded_.value(value).desc.dtype), is_scattered(value), place(value).joined > 0);
    };
    while (!waiting.empty()) {
      const auto first = type(waiting.front());
      const auto rest = std::ranges::stable_partition(waiting, [&](ValueId value) { return type(value) == first; });
      reduce({waiting.begin(), rest.begin()}, std::get<0>(first), std::get<1>(first));
      waiting.erase(waiting.begin(), rest.begin());
    }
  }

  void reduce(std::span<const ValueId> bucket, DType dtype, bool scatters) {
    std::vector<ValueId> leaves;
    std::vector<std::int64_t> divisors;
    for (const ValueId value : bucket) {
      for (const ValueId part : place(value).parts) leaves.push_back(as(dtype, part, value));
      divisors.push_back(divisor(value));
    }
    const AllReduceAttributes all = sums(std::move(divisors), place(bucket.front()).joined > 0);
    const OpPtr op = scatters ? OpPtr(std::make_shared<ReduceScatter>(all)) : std::make_shared<AllReduce>(all);
    const ValueId first = add_for(bucket.back(), op, leaves);
    std::vector<ValueId> updates, updated;
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      const ValueId id = bucket[i];
      const Value& value = recorded_.value(id);
      const ValueId reduced = as(value.desc.dtype, first + static_cast<ValueId>(i), id);
      (scatters ? place(id).piece : place(id).whole) = reduced;
      if (scatters || value.previous == kNoValue) continue;
      updates.push_back(place(value.previous).whole);
      updates.push_back(reduced);
      updated.push_back(id);
    }
    if (updates.empty()) return;
    const ValueId version = add_for(updated.back(), std::make_shared<Assign>(), updates);
    for (std::size_t i = 0; i < updated.size(); ++i) place(updated[i]).whole = version + static_cast<ValueId>(i);
  }

  /// The value in another type, for what a recorded value becomes.
  ValueId as(DType dtype, ValueId here, ValueId recorded) {
    if (copy_.graph().value(here).desc.dtype == dtype) return here;
    return add_for(recorded, std::make_shared<Cast>(dtype), {here});
  }

  RewrittenGraph finish() {
    if (!awaited_.empty()) reduce();
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      const Place& here = place(id);
      const bool is_kept = recorded_.value(id).slot >= 0 && kept(recorded_.value(id)) && !here.is_own;
      if (is_kept || (here.needed_whole && here.layout != Layout::pieces)) whole(id);
      copy_.set_value(id, here.whole != kNoValue ? here.whole : here.own);
    }
    RewrittenGraph result = copy_.finish();
    for (ValueId id = 0; id < recorded_.value_count(); ++id) {
      if (recorded_.value(id).kind == ValueKind::input && place(id).piece != kNoValue) {
        result.values[id] = place(id).piece;
      }
    }
    return result;
  }

  const StepGraph& recorded_;
  const Partition& partition_;
  const std::size_t axis_;  // of the mesh
  const bool is_last_;
  const MeshRanks along_;
  const std::int64_t ranks_, shards_, per_rank_;
  std::vector<Place> places_;                  // per recorded value
  std::vector<std::optional<Divided>> rules_;  // per recorded node; none: every rank computes it
  ShardCopy copy_;
  std::map<std::pair<std::int64_t, ValueId>, ValueId> numbers_;
  std::vector<ValueId> awaited_;  // partial values to communicate, in the order in which they are made
  std::int64_t awaited_bytes_ = 0;
  std::size_t bucket_ = 0;  // index among the given buckets, and how many values it has so far
  std::int32_t in_bucket_ = 0;
};

}  // namespace

RewrittenGraph partition(const StepGraph& recorded, const Partition& partition, std::size_t axis) {
  return Partitioner(recorded, partition, axis).run();
}

}  // namespace braid::ops
