#include "runtime/compile/layerwise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "scheduler/costs/costs.h"

namespace braid {

namespace {

using Kind = CollectiveCall::Kind;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::string_view kDimensions = "nhwc";

bool overwrites(const StepGraph& graph, const Node& node) {
  return std::ranges::any_of(graph.outputs(node), [](const Value& output) { return output.previous != kNoValue; });
}

/// The rule of a node whose inputs have these layouts, along a dimension; 0: as its inputs are divided.
std::optional<Divided> rule_of(const LayeredStep& step, NodeId id, char dimension, std::vector<Layout> layouts) {
  const StepGraph& graph = step.graph;
  const auto inputs = graph.input_descs(id), outputs = graph.output_descs(id);
  const NodeValues values{inputs, outputs};
  const Op& op = *graph.node(id).op;
  if (const char axis = dimension == 0 ? '\0' : axis_of(dimension, op, values); axis != 0) {
    layouts = layouts_along(axis, op, values, layouts);
  }
  std::optional<Divided> rule = op.divide({values, layouts, step.shards});
  if (!rule.has_value() || rule->op != nullptr) return rule;
  for (int i = 0; i < graph.node(id).output_count; ++i) {
    const bool is_version = graph.value(graph.output(id, i)).previous != kNoValue;
    if (is_version && rule->outputs[static_cast<std::size_t>(i)].is_split()) return std::nullopt;
  }
  return rule;
}

bool names(const StepGraph& graph, NodeId id, char dimension) {
  const auto inputs = graph.input_descs(id), outputs = graph.output_descs(id);
  return axis_of(dimension, *graph.node(id).op, {inputs, outputs}) != 0;
}

bool names_any(const StepGraph& graph, NodeId id) {
  return std::ranges::any_of(kDimensions, [&](char dimension) { return names(graph, id, dimension); });
}

bool can_split(const LayeredStep& step, const Value& parameter) {
  const Shape& shape = parameter.desc.shape;
  return parameter.kind == ValueKind::parameter && shape.rank() > 0 && shape[0] % step.shards == 0;
}

/// The dimensions along which a node can be divided.
std::string dimensions_of(const LayeredStep& step, NodeId id) {
  std::string dimensions;
  for (const char dimension : kDimensions) {
    const std::vector<Layout> replicated(step.graph.inputs(id).size());
    if (!names(step.graph, id, dimension)) continue;
    const std::optional<Divided> rule = rule_of(step, id, dimension, replicated);
    if (!rule.has_value() || !rule->outputs.front().is_split()) continue;
    const bool splits = std::ranges::all_of(step.graph.inputs(id), [&](ValueId input) {
      return step.graph.value(input).kind != ValueKind::parameter || can_split(step, step.graph.value(input));
    });
    if (dimension != 'c' || splits) dimensions += dimension;
  }
  return dimensions;
}

class Builder {
 public:
  explicit Builder(const LayeredStep& step)
      : step_(step),
        graph_(step.graph),
        node_layer_(count(graph_.node_count()), kNone),
        value_layer_(count(graph_.value_count()), kNone),
        usual_(count(graph_.value_count())) {}

  LayerwiseCosts run() {
    find_layers();
    lay_out_samples();
    layouts_.resize(result_.layers.size());
    for (std::size_t layer = 0; layer < result_.layers.size(); ++layer) {
      const std::size_t configurations = result_.dimensions[layer].size();
      result_.costs.layers.emplace_back(configurations);
      layouts_[layer].resize(configurations);
      for (std::size_t c = 0; c < configurations; ++c) lay_out(layer, c);
    }
    for (NodeId node = 0; node < graph_.node_count(); ++node) {
      if (node_layer_[count(node)] == kNone) add_update(node);
    }
    add_computing();
    add_demands();
    for (auto& [layers, costs] : pairs_) result_.costs.pairs.push_back({layers.first, layers.second, std::move(costs)});
    return std::move(result_);
  }

 private:
  static std::size_t count(std::int32_t number) { return static_cast<std::size_t>(number); }

  /// What a configuration of a layer needs of a value.
  using Demand = std::tuple<std::size_t, std::size_t, ValueId, Layout>;
  struct Computing {
    std::size_t layer, configuration;
    NodeId node;   // in the graph of parts
    double share;  // of its duration
  };

  bool is_tensor(ValueId value) const { return graph_.value(value).slot >= 0; }

  /// Nodes that name no dimension follow the layer of their first input.
  void find_layers() {
    std::map<std::string_view, std::size_t> places;
    const std::vector<LayerDimensions> layers = layers_of(step_);
    for (const LayerDimensions& layer : layers) {
      places[layer.name] = result_.layers.size();
      result_.layers.push_back(layer.name);
      result_.dimensions.push_back(layer.has_statistics ? "n" : layer.dimensions + '_');
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const std::string& name = step_.layers[count(id)];
      std::size_t layer = kNone;
      if (!name.empty() && names_any(graph_, id)) {
        layer = places.at(name);
      } else if (name.empty() && overwrites(graph_, graph_.node(id))) {
        continue;
      } else {
        for (const ValueId input : graph_.inputs(id)) {
          if (layer == kNone) layer = value_layer_[count(input)];
        }
      }
      node_layer_[count(id)] = layer;
      for (int i = 0; i < graph_.node(id).output_count; ++i) value_layer_[count(graph_.output(id, i))] = layer;
      for (const ValueId input : graph_.inputs(id)) {
        if (is_tensor(input) && layer != kNone) tensor_layer_.try_emplace(graph_.value(input).slot, layer);
      }
    }
  }

  /// How values lie if all layers are divided along samples.
  void lay_out_samples() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) usual_[count(id)] = graph_.value(id).layouts[0];
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      std::vector<Layout> layouts;
      for (const ValueId input : graph_.inputs(id)) layouts.push_back(usual_[count(input)]);
      const std::optional<Divided> rule = rule_of(step_, id, 0, std::move(layouts));
      for (int i = 0; i < graph_.node(id).output_count; ++i) {
        usual_[count(graph_.output(id, i))] =
            rule.has_value() ? rule->outputs[static_cast<std::size_t>(i)].without_halo() : Layout::replicated;
      }
    }
  }

  bool splits_tensor(ValueId tensor, char dimension) const {
    return dimension == 'c' && can_split(step_, graph_.value(tensor));
  }

  void lay_out(std::size_t layer, std::size_t configuration) {
    const char dimension = result_.dimensions[layer][configuration];
    std::map<ValueId, Layout>& made = layouts_[layer][configuration];
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (node_layer_[count(id)] != layer) continue;
      std::vector<Layout> layouts;
      for (const ValueId input : graph_.inputs(id)) {
        Layout lies = usual_[count(input)];
        if (const auto own = made.find(input); own != made.end()) lies = own->second;
        if (is_tensor(input) && splits_tensor(input, dimension)) lies = Layout::split;
        layouts.push_back(lies);
      }
      const bool own = step_.layers[count(id)] == result_.layers[layer];
      const std::optional<Divided> rule = rule_of(step_, id, own ? dimension : '\0', std::move(layouts));
      for (std::size_t i = 0; i < graph_.inputs(id).size(); ++i) {
        const ValueId input = graph_.inputs(id)[i];
        if (is_tensor(input)) continue;  // an op that needs all of one that is split is rare
        demands_.insert({layer, configuration, input, rule.has_value() ? rule->inputs[i] : Layout::replicated});
      }
      for (int i = 0; i < graph_.node(id).output_count; ++i) {
        made[graph_.output(id, i)] =
            rule.has_value() ? rule->outputs[static_cast<std::size_t>(i)].without_halo() : Layout::replicated;
      }
      if (!graph_.node(id).is_view) computing_.push_back({layer, configuration, add_part(id, rule), 1});
    }
  }

  /// Adds a shard's part of a node to the graph of parts.
  NodeId add_part(NodeId id, const std::optional<Divided>& rule) {
    const Node& node = graph_.node(id);
    const bool is_whole_op = !rule.has_value() || rule->op == nullptr;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < graph_.inputs(id).size(); ++i) {
      ValueDesc desc = graph_.value(graph_.inputs(id)[i]).desc;
      const Layout layout = rule.has_value() ? rule->inputs[i] : Layout::replicated;
      if (layout.is_split()) {
        const std::int64_t rows = desc.shape[layout.axis] / step_.shards + layout.below + layout.above;
        desc.shape = desc.shape.with(layout.axis, rows);
      }
      const bool overwritten = is_whole_op && std::ranges::any_of(graph_.outputs(node), [&](const Value& output) {
                                 return output.previous == graph_.inputs(id)[i];
                               });
      inputs.push_back(overwritten ? parts_.add_persistent(desc, ValueKind::state, slots_++) : parts_.add_input(desc));
    }
    if (rule.has_value() && rule->takes_number) inputs.push_back(parts_.add_input({DType::i32, {}}));
    parts_.add_node(is_whole_op ? node.op : rule->op, inputs);
    return parts_.node_count() - 1;
  }

  /// Charges the update of each tensor to its layer, which also needs the gradient.
  void add_update(NodeId id) {
    const Node& node = graph_.node(id);
    if (!overwrites(graph_, node)) return;
    const auto inputs = graph_.inputs(node);
    const auto updates = [](const Value& output) {
      return output.previous != kNoValue && output.kind == ValueKind::parameter;
    };
    double bytes = 0;
    for (const Value& output : graph_.outputs(node)) bytes += updates(output) ? static_cast<double>(output.bytes()) : 0;
    const NodeId part = add_part(id, std::nullopt);
    for (const Value& output : graph_.outputs(node)) {
      if (!updates(output)) continue;
      const auto its_layer = tensor_layer_.find(output.slot);
      if (its_layer == tensor_layer_.end()) continue;
      const std::size_t layer = its_layer->second;
      const auto at = std::ranges::find(inputs, output.previous) - inputs.begin();  // its gradient follows it
      const ValueId gradient = inputs[static_cast<std::size_t>(at) + 1];
      for (std::size_t c = 0; c < result_.dimensions[layer].size(); ++c) {
        const bool splits = splits_tensor(output.previous, result_.dimensions[layer][c]);
        demands_.insert({layer, c, gradient, splits ? Layout::split : Layout::replicated});
        const double share = static_cast<double>(output.bytes()) / bytes;
        computing_.push_back({layer, c, part, share / (splits ? step_.shards : 1)});
      }
    }
  }

  void add_computing() {
    const scheduler::Costs costs = scheduler::analytic_costs(parts_, step_.device, step_.widths, step_.tf32);
    for (const Computing& each : computing_) {
      result_.costs.layers[each.layer][each.configuration] += each.share * costs.fastest(each.node);
    }
  }

  void add_demands() {
    for (const auto& [layer, configuration, value, wanted] : demands_) {
      const std::size_t maker = value_layer_[count(value)];
      double& own = result_.costs.layers[layer][configuration];
      if (maker == kNone) {
        own += microseconds(value, usual_[count(value)], wanted);
      } else if (maker == layer) {
        own += microseconds(value, layouts_[layer][configuration].at(value), wanted);
      } else {
        const std::size_t of_maker = result_.dimensions[maker].size(), of_layer = result_.dimensions[layer].size();
        std::vector<double>& costs = pairs_[{maker, layer}];
        costs.resize(of_maker * of_layer);
        for (std::size_t c = 0; c < of_maker; ++c) {
          costs[c * of_layer + configuration] += microseconds(value, layouts_[maker][c].at(value), wanted);
        }
      }
    }
  }

  /// What it takes to give a value another layout.
  double microseconds(ValueId value, Layout from, Layout to) const {
    const ValueDesc& desc = graph_.value(value).desc;
    const auto bytes = static_cast<std::int64_t>(graph_.value(value).bytes());
    double sum = 0;
    const auto call = [&](Kind kind, std::int64_t number, DType dtype = DType::u8) {
      sum +=
          1e6 * seconds(CollectiveCall{.kind = kind, .count = number, .dtype = dtype}, step_.shards, step_.device.link);
    };
    if (from.is_split() && to.without_halo() != from) call(Kind::all_gather, bytes / step_.shards);
    if (is_partial(from) && to != from) {
      const bool scatters = to == Layout::split;
      call(scatters ? Kind::reduce_scatter : Kind::all_reduce, desc.shape.size() / (scatters ? step_.shards : 1),
           computed_in(desc.dtype));
    }
    for (const std::int64_t rows : {to.below, to.above}) {
      if (rows > 0) call(Kind::shift, bytes / desc.shape[to.axis] * rows);
    }
    return sum;
  }

  const LayeredStep& step_;
  const StepGraph& graph_;
  LayerwiseCosts result_;
  std::vector<std::size_t> node_layer_, value_layer_;
  std::map<std::int32_t, std::size_t> tensor_layer_;             // slot → layer
  std::vector<Layout> usual_;                                    // per value: if layers are divided along samples
  std::vector<std::vector<std::map<ValueId, Layout>>> layouts_;  // per layer and configuration, of what it makes
  std::set<Demand> demands_;
  std::vector<Computing> computing_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> pairs_;
  StepGraph parts_;
  std::int32_t slots_ = 0;
};

}  // namespace

std::vector<LayerDimensions> layers_of(const LayeredStep& step) {
  std::vector<LayerDimensions> layers;
  std::set<std::string_view> known;
  for (NodeId id = 0; id < step.graph.node_count(); ++id) {
    const std::string& name = step.layers[static_cast<std::size_t>(id)];
    if (name.empty() || !names_any(step.graph, id) || !known.insert(name).second) continue;
    const Node& node = step.graph.node(id);
    layers.push_back({name, dimensions_of(step, id), node.op->name() == "linear", overwrites(step.graph, node)});
  }
  return layers;
}

LayerwiseCosts layerwise_costs(const LayeredStep& step) { return Builder(step).run(); }

Strategy layerwise(const LayerwiseCosts& costs) {
  Strategy strategy;
  const std::vector<std::size_t> chosen = scheduler::cheapest(costs.costs);
  for (std::size_t i = 0; i < chosen.size(); ++i) strategy[costs.layers[i]] = std::string(1, costs.dimensions[i][chosen[i]]);
  return strategy;
}

}  // namespace braid
