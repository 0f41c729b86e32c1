#include "runtime/compile/ranks/layerwise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace braid {

namespace {

using Kind = CollectiveCall::Kind;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::string_view kDimensions = "nhwc";

bool overwrites(const StepGraph& graph, const Node& node) {
  return std::ranges::any_of(graph.outputs(node), [](const Value& output) { return output.previous != kNoValue; });
}

/// A node's part for each shard, and how it is divided along each axis of the mesh: along the second, the part of the
/// first.
struct Part {
  OpPtr op;
  std::vector<ValueDesc> inputs, outputs;
  PerMeshAxis<std::optional<Divided>> rules = {};

  /// How input i must lie, and how output i does.
  Layouts wanted(std::size_t i) const {
    Layouts layouts{};
    for (std::size_t k = 0; k < kMeshAxes; ++k) layouts[k] = rules[k] ? rules[k]->inputs[i] : Layout::replicated;
    return layouts;
  }
  Layouts made(std::size_t i) const {
    Layouts layouts{};
    for (std::size_t k = 0; k < kMeshAxes; ++k) {
      if (rules[k]) layouts[k] = rules[k]->outputs[i].without_halo();
    }
    return layouts;
  }
};

/// The part of a node whose inputs have these layouts, along a dimension for each axis; without: as its inputs are
/// divided.
Part part_of(const LayeredStep& step, NodeId id, std::string_view dimensions, std::span<const Layouts> layouts) {
  const StepGraph& graph = step.graph;
  const Node& node = graph.node(id);
  Part part{node.op, graph.input_descs(id), graph.output_descs(id)};
  for (std::size_t k = 0; k < step.mesh().axes(); ++k) {
    const auto shards = static_cast<int>(step.mesh().shards_along(k));
    const NodeValues values{part.inputs, part.outputs};
    std::vector<Layout> own(part.inputs.size());
    for (std::size_t i = 0; i < layouts.size(); ++i) own[i] = layouts[i][k];
    if (const char axis = dimensions.empty() ? '\0' : axis_of(dimensions[k], *part.op, values); axis != 0) {
      own = layouts_along(axis, *part.op, values, own);
    }
    std::optional<Divided> rule = part.op->divide({values, own, shards});
    for (int i = 0; rule.has_value() && rule->op == nullptr && i < node.output_count; ++i) {
      const bool is_version = graph.value(graph.output(id, i)).previous != kNoValue;
      if (is_version && rule->outputs[i].is_split()) {
        rule.reset();
        break;
      }
    }
    if (!rule.has_value()) continue;
    const auto shrink = [&](std::vector<ValueDesc>& descs, std::span<const Layout> to) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (!to[i].is_split()) continue;
        Shape& shape = descs[i].shape;
        shape = shape.with(to[i].axis, shape[to[i].axis] / shards + to[i].below + to[i].above);
      }
    };
    shrink(part.inputs, rule->inputs);
    shrink(part.outputs, rule->outputs);
    if (rule->number == part.inputs.size()) part.inputs.push_back({DType::i32, {}});
    if (rule->op != nullptr) part.op = rule->op;
    part.rules[k] = std::move(rule);
  }
  return part;
}

bool names(const StepGraph& graph, NodeId id, char dimension) {
  const auto inputs = graph.input_descs(id), outputs = graph.output_descs(id);
  return axis_of(dimension, *graph.node(id).op, {inputs, outputs}) != 0;
}

bool names_any(const StepGraph& graph, NodeId id) {
  return std::ranges::any_of(kDimensions, [&](char dimension) { return names(graph, id, dimension); });
}

/// The number of parts of a layer's parameters: it is divided along channels.
int parameter_parts(const LayeredStep& step, std::string_view dimensions) {
  int parts = 1;
  for (std::size_t k = 0; k < dimensions.size(); ++k)
    parts *= dimensions[k] == 'c' ? static_cast<int>(step.mesh().shards_along(k)) : 1;
  return parts;
}

bool can_split(const Value& parameter, int parts) {
  const Shape& shape = parameter.desc.shape;
  return parameter.kind == ValueKind::parameter && shape.rank() > 0 && shape[0] % parts == 0;
}

/// How a node can be divided: LayerDimensions::dimensions.
std::vector<std::string> dimensions_of(const LayeredStep& step, NodeId id) {
  std::vector<std::string> candidates;
  for (const char first : kDimensions) candidates.emplace_back(1, first);
  if (step.mesh().axes() > 1) {
    candidates.clear();
    for (const char first : std::string_view("nhwc_")) {
      for (const char second : std::string_view("nhwc_")) candidates.push_back({first, second});
    }
    candidates.pop_back();  // undivided
  }
  const std::vector<Layouts> replicated(step.graph.inputs(id).size());
  std::erase_if(candidates, [&](const std::string& dimensions) {
    const Part part = part_of(step, id, dimensions, replicated);
    for (std::size_t k = 0; k < dimensions.size(); ++k) {
      if (dimensions[k] == '_') continue;
      const bool is_named = names(step.graph, id, dimensions[k]);
      if (!is_named || !part.rules[k].has_value() || !part.rules[k]->outputs.front().is_split()) return true;
    }
    const int parts = parameter_parts(step, dimensions);
    return parts > 1 && std::ranges::any_of(step.graph.inputs(id), [&](ValueId input) {
             const Value& value = step.graph.value(input);
             return value.kind == ValueKind::parameter && !can_split(value, parts);
           });
  });
  return candidates;
}

class Builder {
 public:
  explicit Builder(const LayeredStep& step)
      : step_(step),
        graph_(step.graph),
        node_layer_(graph_.node_count(), kNone),
        value_layer_(graph_.value_count(), kNone),
        usual_(graph_.value_count()) {
    const auto computes_gradient = [&](NodeId id) {
      return graph_.value(graph_.node(id).first_output).kind == ValueKind::gradient;
    };
    while (backward_ < graph_.node_count() && !computes_gradient(backward_)) ++backward_;
    for (NodeId id = backward_; id < graph_.node_count(); ++id) {
      for (const ValueId input : graph_.inputs(id)) kept_.insert(graph_.value(input).root);
    }
  }

  LayerwiseCosts run() {
    result_.second_axis = step_.second_axis;
    find_layers();
    lay_out_samples();
    layouts_.resize(result_.layers.size());
    for (std::size_t layer = 0; layer < result_.layers.size(); ++layer) {
      const std::size_t configurations = result_.dimensions[layer].size();
      result_.costs.layers.emplace_back(configurations);
      result_.synchronizing.emplace_back(configurations);
      layouts_[layer].resize(configurations);
      for (std::size_t c = 0; c < configurations; ++c) lay_out(layer, c);
    }
    for (NodeId node = 0; node < graph_.node_count(); ++node) {
      if (node_layer_[node] == kNone) add_update(node);
    }
    add_computing();
    add_demands();
    for (auto& [layers, costs] : pairs_) result_.costs.pairs.push_back({layers.first, layers.second, std::move(costs)});
    return std::move(result_);
  }

 private:
  /// What a configuration of a layer needs of a value.
  using Demand = std::tuple<std::size_t, std::size_t, ValueId, Layouts>;
  struct Computing {
    std::size_t layer, configuration;
    NodeId node;   // in the graph of parts
    double share;  // of its duration
  };

  bool is_tensor(ValueId value) const { return graph_.value(value).slot >= 0; }

  /// Whether a node of the backward pass needs a value of the forward pass.
  bool is_kept(ValueId value, NodeId node) const {
    return node >= backward_ && graph_.value(value).kind != ValueKind::gradient;
  }

  /// Nodes that name no dimension follow the layer of their first input.
  void find_layers() {
    std::map<std::string_view, std::size_t> places;
    const std::vector<LayerDimensions> layers = layers_of(step_);
    for (const LayerDimensions& layer : layers) {
      places[layer.name] = result_.layers.size();
      result_.layers.push_back(layer.name);
      std::vector<std::string>& configurations = result_.dimensions.emplace_back(layer.dimensions);
      configurations.emplace_back(step_.mesh().axes(), '_');
      if (layer.has_statistics) configurations = {std::string(step_.mesh().axes(), 'n')};
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      const std::string& name = step_.layers[id];
      std::size_t layer = kNone;
      if (!name.empty() && names_any(graph_, id)) {
        layer = places.at(name);
      } else if (name.empty() && overwrites(graph_, graph_.node(id))) {
        continue;
      } else {
        for (const ValueId input : graph_.inputs(id)) {
          if (layer == kNone) layer = value_layer_[input];
        }
      }
      node_layer_[id] = layer;
      for (int i = 0; i < graph_.node(id).output_count; ++i) value_layer_[graph_.output(id, i)] = layer;
      for (const ValueId input : graph_.inputs(id)) {
        if (is_tensor(input) && layer != kNone) tensor_layer_.try_emplace(graph_.value(input).slot, layer);
      }
    }
  }

  /// How values lie if all layers are divided along samples.
  void lay_out_samples() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) usual_[id] = graph_.value(id).layouts;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      std::vector<Layouts> layouts;
      for (const ValueId input : graph_.inputs(id)) layouts.push_back(usual_[input]);
      const Part part = part_of(step_, id, "", layouts);
      for (int i = 0; i < graph_.node(id).output_count; ++i) usual_[graph_.output(id, i)] = part.made(i);
    }
  }

  /// The layouts of a layer's tensor.
  Layouts tensor_layouts(ValueId tensor, std::string_view dimensions) const {
    const bool splits = can_split(graph_.value(tensor), parameter_parts(step_, dimensions));
    return splits ? parameter_layouts(dimensions) : Layouts{};
  }

  void lay_out(std::size_t layer, std::size_t configuration) {
    const std::string& dimensions = result_.dimensions[layer][configuration];
    std::map<ValueId, Layouts>& made = layouts_[layer][configuration];
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (node_layer_[id] != layer) continue;
      const auto inputs = graph_.inputs(id);
      std::vector<Layouts> layouts;
      for (const ValueId input : inputs) {
        Layouts lies = usual_[input];
        if (const auto own = made.find(input); own != made.end()) lies = own->second;
        if (const Layouts its = is_tensor(input) ? tensor_layouts(input, dimensions) : Layouts{}; !is_replicated(its)) {
          lies = its;
        }
        layouts.push_back(lies);
      }
      const bool own = step_.layers[id] == result_.layers[layer];
      const Part part = part_of(step_, id, own ? dimensions : "", layouts);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        // An op that needs all of a tensor that is split is rare.
        if (is_tensor(inputs[i])) continue;
        bool& keeps = demands_[{layer, configuration, inputs[i], part.wanted(i)}];
        keeps = keeps || is_kept(inputs[i], id);
      }
      for (int i = 0; i < graph_.node(id).output_count; ++i) {
        const ValueId output = graph_.output(id, i);
        made[output] = part.made(i);
        if (id >= backward_ || kept_.count(output) == 0) continue;
        result_.costs.layers[layer][configuration].bytes += part_bytes(output, part.made(i));
      }
      if (!graph_.node(id).is_view) computing_.push_back({layer, configuration, add_part(id, part), 1});
    }
  }

  /// Adds a shard's part of a node to the graph of parts.
  NodeId add_part(NodeId id, const Part& part) {
    const Node& node = graph_.node(id);
    const bool is_whole_op = part.op == node.op;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const bool overwritten = is_whole_op && i < graph_.inputs(id).size() &&
                               std::ranges::any_of(graph_.outputs(node), [&](const Value& output) {
                                 return output.previous == graph_.inputs(id)[i];
                               });
      const ValueDesc& desc = part.inputs[i];
      inputs.push_back(overwritten ? parts_.add_persistent(desc, ValueKind::state, slots_++) : parts_.add_input(desc));
    }
    parts_.add_node(part.op, inputs);
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
    const NodeId part = add_part(id, {node.op, graph_.input_descs(id), graph_.output_descs(id)});
    for (const Value& output : graph_.outputs(node)) {
      if (!updates(output)) continue;
      const auto its_layer = tensor_layer_.find(output.slot);
      if (its_layer == tensor_layer_.end()) continue;
      const std::size_t layer = its_layer->second;
      const auto at = std::ranges::find(inputs, output.previous) - inputs.begin();  // its gradient follows it
      const ValueId gradient = inputs[static_cast<std::size_t>(at) + 1];
      updating_.insert(gradient);
      for (std::size_t c = 0; c < result_.dimensions[layer].size(); ++c) {
        const std::string& dimensions = result_.dimensions[layer][c];
        const Layouts layouts = tensor_layouts(output.previous, dimensions);
        demands_.try_emplace({layer, c, gradient, layouts}, false);
        const int parts = is_replicated(layouts) ? 1 : parameter_parts(step_, dimensions);
        computing_.push_back({layer, c, part, static_cast<double>(output.bytes()) / bytes / parts});
        result_.costs.layers[layer][c].bytes += part_bytes(gradient, layouts);
      }
    }
  }

  void add_computing() {
    const scheduler::Costs costs = step_.model.costs(parts_);
    for (const Computing& each : computing_) {
      result_.costs.layers[each.layer][each.configuration].time += each.share * costs.fastest(each.node);
    }
  }

  void add_demands() {
    for (const auto& [demand, keeps] : demands_) {
      const auto& [layer, configuration, value, wanted] = demand;
      const auto changed = [&](const Layouts& from) {
        const double bytes = keeps && from != wanted ? part_bytes(value, wanted) : 0;
        return scheduler::LayerCost{microseconds(value, from, wanted), bytes};
      };
      const std::size_t maker = value_layer_[value];
      scheduler::LayerCost& own = result_.costs.layers[layer][configuration];
      if (maker == kNone) {
        own += changed(usual_[value]);
      } else if (maker == layer) {
        const scheduler::LayerCost its = changed(layouts_[layer][configuration].at(value));
        own += its;
        if (updating_.contains(value)) result_.synchronizing[layer][configuration] += its.time;
      } else {
        const std::size_t of_maker = result_.dimensions[maker].size(), of_layer = result_.dimensions[layer].size();
        std::vector<scheduler::LayerCost>& costs = pairs_[{maker, layer}];
        costs.resize(of_maker * of_layer);
        for (std::size_t c = 0; c < of_maker; ++c) {
          costs[c * of_layer + configuration] += changed(layouts_[maker][c].at(value));
        }
      }
    }
  }

  /// What a shard has of a value, with halos.
  double part_bytes(ValueId value, const Layouts& layouts) const {
    const ValueDesc& desc = graph_.value(value).desc;
    auto bytes = static_cast<double>(desc.bytes());
    for (std::size_t k = 0; k < step_.mesh().axes(); ++k) {
      if (!layouts[k].is_split()) continue;
      bytes /= static_cast<double>(step_.mesh().shards_along(k));
      const auto halo = static_cast<double>(layouts[k].below + layouts[k].above);
      const auto extent = static_cast<double>(desc.shape[layouts[k].axis]);
      bytes *= 1 + halo * static_cast<double>(step_.mesh().shards_along(k)) / extent;
    }
    return bytes;
  }

  /// What it takes to give a value other layouts. Along the first axis of the mesh, ranks exchange what they have of
  /// the parts of the second, unless a collective joins or divides what the second has divided: then that is gathered
  /// before.
  double microseconds(ValueId value, Layouts from, const Layouts& to) const {
    const ValueDesc& desc = graph_.value(value).desc;
    const auto elements = static_cast<double>(desc.shape.size());
    double sum = 0;
    const auto call = [&](RankGroup group, Kind kind, double count, DType dtype = DType::u8) {
      const CollectiveCall made{.kind = kind, .count = static_cast<std::int64_t>(count), .dtype = dtype};
      sum += 1e6 * seconds(made, static_cast<int>(group.ranks), step_.model.device.link_among(group));
    };
    const auto parts = [&](Layout layout, std::size_t k) {
      return layout.is_split() ? static_cast<double>(step_.mesh().shards_along(k)) : 1;
    };
    const RankGroup all{step_.shards, 1};
    const auto group = [&](std::size_t k) { return step_.mesh().ranks_along(k); };
    const auto bytes = [&](double of) { return of * static_cast<double>(size_of(desc.dtype)); };
    const auto change = [&](std::size_t k, Layout into, double share) {
      const auto shards = static_cast<int>(step_.mesh().shards_along(k));
      if (from[k].is_split() && into.without_halo() != from[k]) {
        const double part = bytes(elements * share / shards);
        into.is_split() ? call(group(k), Kind::all_to_all, part / shards) : call(group(k), Kind::all_gather, part);
      }
      if (is_partial(from[k]) && into != from[k]) {
        const bool scatters = into.is_split() && !into.has_halo();
        call(group(k), scatters ? Kind::reduce_scatter : Kind::all_reduce, elements * share / (scatters ? shards : 1),
             computed_in(desc.dtype));
      }
      from[k] = into.without_halo();
    };
    if (step_.mesh().axes() > 1 && is_partial(from[0]) && is_partial(from[1]) && is_replicated(to)) {
      call(all, Kind::all_reduce, elements, computed_in(desc.dtype));
      return sum;
    }
    const bool moves = from[0].is_split() && to[0].without_halo() != from[0];
    const bool exchanges = moves && to[0].is_split();
    const bool keeps =
        exchanges ? from[1].axis != from[0].axis && from[1].axis != to[0].axis : from[1].axis != 0 && from[0].axis == 0;
    if (moves && from[1].is_split() && !keeps) change(1, Layout::replicated, 1.0 / parts(from[0], 0));
    change(0, to[0], 1.0 / parts(from[1], 1));
    change(1, to[1], 1.0 / parts(to[0], 0));
    for (std::size_t k = 0; k < step_.mesh().axes(); ++k) {
      for (const std::int64_t halo : {to[k].below, to[k].above}) {
        if (halo <= 0) continue;
        const double share = static_cast<double>(halo) / static_cast<double>(desc.shape[to[k].axis]);
        call(group(k), Kind::shift, bytes(elements * share / parts(to[1 - k], 1 - k)));
      }
    }
    return sum;
  }

  const LayeredStep& step_;
  const StepGraph& graph_;
  LayerwiseCosts result_;
  std::vector<std::size_t> node_layer_, value_layer_;
  std::map<std::int32_t, std::size_t> tensor_layer_;              // slot → layer
  std::vector<Layouts> usual_;                                    // per value: if layers are divided along samples
  std::vector<std::vector<std::map<ValueId, Layouts>>> layouts_;  // per layer and configuration, of what it makes
  NodeId backward_ = 0;                                           // the first node of the backward pass
  std::set<ValueId> kept_;                                        // roots of what it reads
  std::map<Demand, bool> demands_;                                // and whether the backward pass needs the value
  std::set<ValueId> updating_;                                    // gradients of parameters
  std::vector<Computing> computing_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<scheduler::LayerCost>> pairs_;
  StepGraph parts_;
  std::int32_t slots_ = 0;
};

}  // namespace

std::vector<LayerDimensions> layers_of(const LayeredStep& step) {
  std::vector<LayerDimensions> layers;
  std::set<std::string_view> known;
  for (NodeId id = 0; id < step.graph.node_count(); ++id) {
    const std::string& name = step.layers[id];
    if (name.empty() || !names_any(step.graph, id) || !known.insert(name).second) continue;
    const Node& node = step.graph.node(id);
    layers.push_back({name, dimensions_of(step, id), node.op->name() == "linear", overwrites(step.graph, node)});
  }
  return layers;
}

LayerwiseCosts layerwise_costs(const LayeredStep& step) { return Builder(step).run(); }

std::vector<LayerwiseStrategy> layerwise(const LayerwiseCosts& costs, std::size_t count, double limit, double exposed) {
  std::vector<LayerwiseStrategy> strategies;
  scheduler::LayerCosts exposes = costs.costs;
  for (std::size_t i = 0; i < exposes.layers.size(); ++i) {
    for (std::size_t c = 0; c < exposes.layers[i].size(); ++c) {
      exposes.layers[i][c].time -= (1 - exposed) * costs.synchronizing[i][c];
    }
  }
  for (const std::vector<std::size_t>& chosen : scheduler::cheapest(exposes, count, limit)) {
    auto& [strategy, cost] = strategies.emplace_back();
    strategy.second_axis = costs.second_axis;
    for (std::size_t i = 0; i < chosen.size(); ++i) strategy[costs.layers[i]] = costs.dimensions[i][chosen[i]];
    cost = scheduler::total(exposes, chosen);
  }
  return strategies;
}

}  // namespace braid
