#include "ops/rewrites/partition_check.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ops/rewrites/rank_parts.h"

namespace braid::ops {

namespace {

class PartitionCheck : RankParts {
 public:
  PartitionCheck(const StepGraph& recorded, const RewrittenGraph& divided, const Partition& partition, std::size_t axis)
      : RankParts(recorded, divided.graph, partition, axis), divided_(divided), parts_(graph_.value_count()) {}

  std::string run() {
    find_sources();
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

  Parts outputs(const Node& recorded, const Divided& rule, std::optional<std::int64_t> shard) const {
    Parts made;
    for (const Layout layout : rule.outputs)
      made.push_back(part_of(recorded.first_output + std::ssize(made), layout, shard));
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
      const Part &its = part(here), expected = source(recorded_.first_version(id));
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

  const RewrittenGraph& divided_;
  Parts parts_;  // per value of the divided graph
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
