#include "train/run/strategy.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "runtime/agreement.h"
#include "runtime/compile/planner.h"
#include "runtime/compile/ranks/bucket_choice.h"
#include "runtime/device_check.h"
#include "scheduler/memory/memory_limit.h"
#include "scheduler/pipeline.h"
#include "scheduler/policy.h"
#include "train/config/tree.h"
#include "train/run/job/learner.h"

namespace braid {

namespace {

constexpr std::string_view kDimensions = "nhwc";
/// Shares of adding gradients that may not overlap with the backward pass, and how many strategies that the layer-wise
/// search finds for each are simulated.
constexpr double kExposed[] = {1, 0.25};
constexpr std::size_t kJudged = 2;

std::int64_t read_number(const ConfigNode& value, const std::string& key) {
  std::int64_t number = 0;
  const char* const end = value.text.data() + value.text.size();
  const bool is_number = std::from_chars(value.text.data(), end, number).ptr == end && number > 0;
  BRAID_CHECK(is_number, ConfigError, value.location, ": ", key, ": expected a number of parts, got '", value.text,
              "'");
  return number;
}

/// An entry such as {h: 2, w: 2}.
Parts read_split(const ConfigNode::Entry& layer) {
  BRAID_CHECK(layer.value.kind == ConfigNode::Kind::map && !layer.value.entries.empty(), ConfigError, layer.location,
              ": layers.", layer.key, ": expected dimensions and their numbers of parts, as in {c: 4} or {h: 2, w: 2}");
  Parts split;
  for (const auto& [key, location, value] : layer.value.entries) {
    BRAID_CHECK(key == "_" || (key.size() == 1 && kDimensions.find(key) != std::string_view::npos), ConfigError,
                location, ": layers.", layer.key,
                ": expected n (samples), h (height), w (width) or c (channels), got '", key, "'");
    const std::int64_t parts = read_number(value, message("layers.", layer.key, ".", key));
    if (parts > 1) split.emplace_back(key.front(), parts);
  }
  return split;
}

std::string text_of(const Parts& split) {
  const auto text = [](const auto& part) { return message('"', part.first, "\": ", part.second); };
  return '{' + (split.empty() ? "\"n\": 1" : comma_list(split, ", ", text)) + '}';
}

/// The largest divisor that is at most the square root.
int second_axis_for(int shards) {
  int second = 1;
  for (int i = 2; i * i <= shards; ++i) second = shards % i == 0 ? i : second;
  return second;
}

/// The smaller of two is better.
struct Simulated {
  std::int64_t excess_bytes = std::numeric_limits<std::int64_t>::max();  ///< of the arena, above the memory limit
  double microseconds = 0;

  auto operator<=>(const Simulated&) const = default;
};

/// The samples of all shards.
Batch whole_batch(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size) {
  const std::int64_t shards = config.session.parallel.shard_count();
  Batch batch = blank_batch(*datasets.get(config, Split::train), std::max(shards, batch_size - batch_size % shards));
  batch.split = true;
  return batch;
}

/// A training step of the config with this batch, which does not run.
class RecordedTraining {
 public:
  RecordedTraining(const TrainConfig& config, DatasetPool& datasets, const Batch& batch, const Strategy& strategy)
      : config_(recording(config, strategy)),
        shards_(config_.session.parallel.virtual_ranks),
        ranks_(shards_ % config.session.parallel.ranks() == 0 ? config.session.parallel.ranks() : 1),
        session_(config_.session),
        dataset_(datasets.get(config_, Split::train)),
        learner_(config_, session_, *dataset_),
        step_(session_.step()),
        graph_(session_.tape().graph()) {
    learner_.record(batch);
    for (NodeId node = 0; node < graph_.node_count(); ++node) layers_.push_back(session_.tape().layer(node));
  }
  ~RecordedTraining() { step_.discard(); }
  RecordedTraining(const RecordedTraining&) = delete;
  RecordedTraining& operator=(const RecordedTraining&) = delete;

  LayeredStep layered(int second_axis, const DeviceInfo& device = {}) const {
    return {.graph = graph_,
            .layers = layers_,
            .shards = shards_,
            .second_axis = second_axis,
            .model = cost_model(config_.session, device)};
  }

  /// The layers in the order of the forward pass, how long each computes, and the messages if a stage begins with it.
  struct LayerTimes {
    std::vector<std::string> names;
    std::vector<double> microseconds = {}, cut = {};
  };
  LayerTimes layer_times(const DeviceInfo& device) const {
    const scheduler::Costs costs = cost_model(config_.session, device).costs(graph_);
    LayerTimes times;
    std::vector<std::size_t> layer_of(static_cast<std::size_t>(graph_.node_count()));  // of nodes of the forward pass
    std::size_t layer = 0;
    bool is_forward = true;
    for (NodeId node = 0; node < graph_.node_count(); ++node) {
      const std::string& name = layers_[static_cast<std::size_t>(node)];
      const bool is_gradient = graph_.value(graph_.node(node).first_output).kind == ValueKind::gradient;
      is_forward = is_forward && !is_gradient;
      const auto found = std::ranges::find(times.names, name);
      if (is_forward && found == times.names.end() && !name.empty()) {
        layer = times.names.size();
        times.names.push_back(name);
        times.microseconds.push_back(0);
        times.cut.push_back(0);
      } else if (is_gradient && found != times.names.end()) {
        layer = static_cast<std::size_t>(found - times.names.begin());
      }
      if (!times.names.empty() && (is_forward || is_gradient)) times.microseconds[layer] += costs.fastest(node);
      layer_of[static_cast<std::size_t>(node)] = layer;
      if (!is_forward) continue;
      for (const ValueId input : graph_.inputs(node)) {
        const Value& value = graph_.value(graph_.value(input).root);
        if (value.producer == kNoNode) continue;
        const Communication message{.exchanged = Message{.bytes = static_cast<std::int64_t>(value.bytes())}};
        for (std::size_t i = layer_of[static_cast<std::size_t>(value.producer)] + 1; i <= layer; ++i) {
          times.cut[i] += 1e6 * seconds(message, device.link);
        }
      }
    }
    return times;
  }

  /// Simulates a step, without parallel.zero: of the stages of a pipeline, or divided, with parallel.bucket_bytes or
  /// the buckets that with_buckets() finds, within seconds if it improves them. A lone rank stands for as many ranks as
  /// there are shards.
  Simulated simulate(const DeviceInfo& device, bool improves_buckets) const {
    const SessionOptions& options = config_.session;
    const scheduler::CostModel model = cost_model(options, device);
    std::vector<scheduler::Problem> problems;
    for (RewrittenGraph& planned : rewritten(model, improves_buckets)) {
      problems.push_back(model.problem(std::move(planned.graph), streams()));
    }
    const scheduler::LimitedStages steps =
        plan_stages(std::move(problems), scheduler::find_policy(options.policy), options.policy, options.memory_limit);
    const std::int64_t excess = options.memory_limit > 0 ? steps.arena_bytes() - options.memory_limit : 0;
    return {std::max<std::int64_t>(0, excess), steps.makespan()};
  }

  /// No step of a pipeline with these stages is shorter: it takes as long as the busiest stage computes and as the
  /// busiest link carries messages, if a micro-batch has all samples. More of them only add launches and messages.
  double shortest_pipeline(const DeviceInfo& device) const {
    const scheduler::CostModel model = cost_model(config_.session, device);
    const RewrittenGraph planned = as_planned(graph_, device, {}, model.direct);
    const StepGraph& graph = planned.graph;
    const scheduler::Costs costs = model.costs(graph);
    const auto stages = static_cast<std::size_t>(config_.session.parallel.stages());
    std::vector<double> computing(stages), carrying(stages);
    std::vector<bool> is_given(static_cast<std::size_t>(graph.value_count()),
                               true);  // without parameters: on any stage
    std::set<std::pair<ValueId, std::size_t>> sent;
    for (NodeId node = 0; node < graph.node_count(); ++node) {
      const auto stage = static_cast<std::size_t>(graph.node(node).stage);
      bool has_given = true;
      for (const ValueId input : graph.inputs(node)) {
        const Value& value = graph.value(input);
        has_given = has_given && is_given[static_cast<std::size_t>(input)] && value.slot < 0;
        if (is_given[static_cast<std::size_t>(input)] || value.producer == kNoNode) continue;
        const auto from = static_cast<std::size_t>(graph.node(value.producer).stage);
        if (from == stage || !sent.emplace(input, stage).second) continue;
        const Communication message{.exchanged = Message{.bytes = static_cast<std::int64_t>(value.bytes())}};
        for (const std::size_t end : {from, stage}) carrying[end] += 1e6 * seconds(message, device.link);
      }
      for (int i = 0; i < graph.node(node).output_count; ++i) {
        is_given[static_cast<std::size_t>(graph.output(node, i))] = has_given;
      }
      if (!has_given) computing[stage] += costs.least_work(node) / device.capacity;
    }
    return std::max(std::ranges::max(computing), std::ranges::max(carrying));
  }

 private:
  int streams() const { return config_.session.streams > 0 ? config_.session.streams : kPlannedStreams; }

  /// The step of each stage of a pipeline, or the one of all ranks.
  std::vector<RewrittenGraph> rewritten(const scheduler::CostModel& model, bool improves_buckets) const {
    const SessionOptions& options = config_.session;
    if (options.parallel.stages() > 1) {
      return pipelined(graph_, options.parallel, model, session_).stages;
    }
    ops::Partition partition{.ranks = ranks_ > 1 ? ranks_ : shards_,
                             .shards = shards_,
                             .second_shards = options.parallel.layers.second_axis,
                             .exact = ranks_ > 1 && ranks_ < shards_};
    if (const std::int64_t bytes = options.parallel.bucket_bytes; bytes > 0) {
      partition.bucket_bytes = bytes;
    } else {
      partition =
          with_buckets(graph_, partition, model, streams(), scheduler::find_policy(options.policy), improves_buckets);
    }
    std::vector<RewrittenGraph> of_all;
    of_all.push_back(as_planned(graph_, model.device, partition, model.direct));
    return of_all;
  }

  static TrainConfig recording(TrainConfig config, const Strategy& strategy) {
    SessionOptions& options = config.session;
    options = recording_options(std::move(options));
    options.parallel = {.virtual_ranks = options.parallel.shard_count(),
                        .bucket_bytes = options.parallel.bucket_bytes,
                        .layers = strategy,
                        .pipeline = options.parallel.pipeline,
                        .sync_batch_norm = options.parallel.sync_batch_norm};
    return config;
  }

  const TrainConfig config_;
  const int shards_, ranks_;
  Session session_;
  const std::shared_ptr<const ImageDataset> dataset_;
  Learner learner_;
  Step step_;
  const StepGraph& graph_;
  std::vector<std::string> layers_;  // per node
};

/// The `count` best strategies by costs on several meshes: those within the limit, the fastest first.
std::vector<Strategy> layerwise_on(std::span<const LayerwiseCosts> meshes, std::size_t count, double limit,
                                   double exposed) {
  std::vector<LayerwiseStrategy> all;
  for (const LayerwiseCosts& costs : meshes) {
    std::ranges::move(layerwise(costs, count, limit, exposed), std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, [&](const LayerwiseStrategy& each) {
    return std::pair(std::max(0.0, each.cost.bytes - limit), each.cost.time);
  });
  std::vector<Strategy> best;
  for (std::size_t i = 0; i < std::min(count, all.size()); ++i) best.push_back(std::move(all[i].strategy));
  return best;
}

/// A pipeline with stages of about equal times.
Strategy balanced_pipeline(const RecordedTraining::LayerTimes& times, int stages) {
  Strategy strategy;
  for (const std::size_t layer :
       scheduler::balanced_stages(times.microseconds, times.cut, static_cast<std::size_t>(stages))) {
    strategy.stages.push_back(times.names[layer]);
  }
  return strategy;
}

}  // namespace

Parts parts_of(std::string_view dimensions, int shards, int second_axis) {
  Parts split;
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    const std::int64_t parts = ShardMesh{.shards = shards, .second = second_axis}.shards_along(k);
    if (!split.empty() && split.back().first == dimensions[k]) {
      split.back().second *= parts;
    } else {
      split.emplace_back(dimensions[k], parts);
    }
  }
  if (split.back().first == '_') split.pop_back();
  return split;
}

bool has_stages(const std::string& strategy) {
  if (std::ranges::count(kStrategies, strategy) > 0) return strategy == "pipeline";
  return read_config_file(strategy).find("stages") != nullptr;
}

Strategy one_weird_trick(const std::vector<LayerDimensions>& layers) {
  Strategy strategy;
  for (const LayerDimensions& layer : layers) {
    if (layer.is_fully_connected) strategy[layer.name] = std::ranges::count(layer.dimensions, "c") == 0 ? "n" : "c";
  }
  return strategy;
}

Strategy read_strategy(const std::string& path, const LayersOnMesh& layers, int shards) {
  const ConfigNode file = read_config_file(path);
  for (const ConfigNode::Entry& entry : file.entries) {
    BRAID_CHECK(entry.key == "layers" || entry.key == "second_axis", ConfigError, entry.location,
                ": expected the keys 'layers' and 'second_axis', got '", entry.key, "'");
  }
  const ConfigNode::Entry *list = file.find("layers"), *axis = file.find("second_axis");
  BRAID_CHECK(list != nullptr && list->value.kind == ConfigNode::Kind::map, ConfigError, path,
              ": expected 'layers' with the dimensions of each, as in {layers: {fc: {c: ", shards, "}}}");
  std::vector<std::int64_t> meshes;  // their second axes
  for (std::int64_t second = 1; second == 1 || second < shards; ++second) {
    if (shards % second == 0) meshes.push_back(second);
  }
  if (axis != nullptr) {
    const std::int64_t given = read_number(axis->value, "second_axis");
    BRAID_CHECK(std::ranges::count(meshes, given) > 0, ConfigError, axis->value.location,
                ": second_axis: expected a divisor of the ", shards, " shards below them, got ", given);
    meshes = {given};
  }
  const std::vector<ConfigNode::Entry>& entries = list->value.entries;
  std::vector<Parts> splits;
  for (const ConfigNode::Entry& entry : entries) splits.push_back(read_split(entry));
  // The first misfit on the mesh that fits most of the layers before it, and what would fit.
  std::size_t misfit = 0;
  std::vector<std::string> fitting;
  for (const std::int64_t second : meshes) {
    Strategy strategy;
    strategy.second_axis = static_cast<int>(second);
    const std::vector<LayerDimensions> model = layers(strategy.second_axis);
    const auto fits = [&](std::size_t i) {
      const auto layer = std::ranges::find(model, entries[i].key, &LayerDimensions::name);
      if (layer == model.end()) {
        std::vector<std::string> names;
        for (const LayerDimensions& each : model) names.push_back(each.name);
        throw ConfigError(message(entries[i].location, ": layers: the model has no layer '", entries[i].key, "'",
                                  suggestion(entries[i].key, names)));
      }
      std::vector<std::string> possible = layer->dimensions, texts;
      possible.emplace_back(second > 1 ? "__" : "_");
      for (const std::string& dimensions : possible) {
        const Parts split = parts_of(dimensions, shards, strategy.second_axis);
        if (split == splits[i]) return strategy[entries[i].key] = dimensions, true;
        texts.push_back(text_of(split));
      }
      if (fitting.empty() || i > misfit) misfit = i, fitting = std::move(texts);
      return false;
    };
    std::size_t i = 0;
    while (i < entries.size() && fits(i)) ++i;
    if (i == entries.size()) return strategy;
  }
  throw ConfigError(message(entries[misfit].location, ": layers.", entries[misfit].key, ": expected parts for ", shards,
                            " shards, ", comma_list(fitting), ", got ", text_of(splits[misfit])));
}

Strategy read_stages(const std::string& path, const std::vector<std::string>& layers, int ranks) {
  const ConfigNode file = read_config_file(path);
  const ConfigNode::Entry* list = file.find("stages");
  BRAID_CHECK(list != nullptr && file.entries.size() == 1 && list->value.kind == ConfigNode::Kind::list, ConfigError,
              path, ": expected 'stages' with the layer that each begins with but the first, and no other key");
  BRAID_CHECK(std::ssize(list->value.items) == ranks - 1, ConfigError, list->location, ": stages: expected ",
              plural(ranks - 1, "layer"), ", where the second and later stages of ", ranks, " ranks begin, got ",
              list->value.items.size());
  Strategy strategy;
  auto before = layers.begin();
  for (const ConfigNode& item : list->value.items) {
    const auto found = std::ranges::find(layers, item.text);
    BRAID_CHECK(found != layers.end(), ConfigError, item.location, ": stages: the model has no layer '", item.text, "'",
                suggestion(item.text, layers));
    BRAID_CHECK(found > before, ConfigError, item.location, ": stages: expected a layer that follows '", *before,
                "' in the forward pass, got '", item.text, "'");
    before = found;
    strategy.stages.push_back(item.text);
  }
  return strategy;
}

int default_micro_batches(std::int64_t batch_size, int stages) {
  int count = 1;
  for (int i = 2; i <= 4 * stages; ++i) count = batch_size % i == 0 && batch_size / i >= 4 ? i : count;
  return count;
}

std::string to_json(const Strategy& strategy, int shards) {
  if (!strategy.stages.empty()) {
    const auto quoted = [](const std::string& layer) { return '"' + layer + '"'; };
    return "{\"stages\": [" + comma_list(strategy.stages, ", ", quoted) + "]}\n";
  }
  std::string text = "{";
  if (strategy.second_axis > 1) text += message("\"second_axis\": ", strategy.second_axis, ", ");
  text += "\"layers\": {";
  for (std::string_view before = "\n"; const auto& [layer, dimensions] : strategy) {
    text += message(std::exchange(before, ",\n"), "  \"", layer,
                    "\": ", text_of(parts_of(dimensions, shards, strategy.second_axis)));
  }
  return text + "\n}}\n";
}

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size,
                       const std::function<DeviceInfo()>& device, std::optional<int> micro_batches) {
  const ParallelOptions& parallel = config.session.parallel;
  const std::string& name = parallel.strategy;
  if (name == "data" || (parallel.ranks() == 1 && !parallel.divides())) return {};
  const bool is_pipeline = has_stages(name);
  if (is_pipeline ? parallel.ranks() == 1 : !parallel.divides()) return {};
  if (parallel.exchanges_otherwise() && !is_pipeline) {
    BRAID_CHECK(name == "auto", ConfigError,
                "[parallel] strategy: expected data or auto with compression, staleness or "
                "average_every, got ",
                name);
    return {};
  }
  const Batch batch = whole_batch(config, datasets, batch_size);
  const RecordedTraining recorded(config, datasets, batch, {});
  if (is_pipeline) {
    const auto times = recorded.layer_times(device());
    return name == "pipeline" ? balanced_pipeline(times, parallel.ranks())
                              : read_stages(name, times.names, parallel.ranks());
  }
  const auto layers = [&](int second_axis) { return layers_of(recorded.layered(second_axis)); };
  if (name == "owt") return one_weird_trick(layers(1));
  if (name != "layerwise" && name != "auto") return read_strategy(name, layers, parallel.shard_count());
  const DeviceInfo info = device();
  std::vector<LayerwiseCosts> costs{layerwise_costs(recorded.layered(1, info))};
  if (const int second_axis = second_axis_for(parallel.shard_count()); second_axis > 1) {
    costs.push_back(layerwise_costs(recorded.layered(second_axis, info)));
  }
  const auto limit = static_cast<double>(config.session.memory_limit);
  std::vector<Strategy> candidates{{}, one_weird_trick(layers(1))};  // those with names
  const auto consider = [&](std::size_t count, double bytes, double exposed) {
    for (Strategy& strategy : layerwise_on(costs, count, bytes, exposed)) {
      const bool is_data = std::ranges::all_of(
          strategy, [](const auto& layer) { return layer.second.find_first_not_of('n') == std::string::npos; });
      if (!is_data && std::ranges::count(candidates, strategy) == 0) candidates.push_back(std::move(strategy));
    }
  };
  for (const double exposed : kExposed) consider(kJudged, limit > 0 ? limit : scheduler::kNoLimit, exposed);
  if (limit > 0) {
    // The fastest one may fit by recomputation, of which the search does not know, or else that with the fewest bytes.
    for (const double bytes : {scheduler::kNoLimit, 0.0}) consider(1, bytes, 1);
  }
  const auto best_of = [&](const std::vector<Strategy>& strategies, bool improves_buckets) {
    std::pair<Simulated, Strategy> best;
    for (const Strategy& strategy : strategies) {
      const Simulated its = RecordedTraining(config, datasets, batch, strategy).simulate(info, improves_buckets);
      if (its < best.first) best = {its, strategy};
    }
    return best;
  };
  // What is traded for memory depends on the buckets.
  Strategy by_layer = best_of(candidates, limit > 0).second;
  if (name == "layerwise") return by_layer;
  candidates.resize(2);
  if (std::ranges::count(candidates, by_layer) == 0) candidates.push_back(std::move(by_layer));
  auto best = best_of(candidates, true);
  if (parallel.ranks() == 1 || !micro_batches.has_value()) return best.second;
  try {
    TrainConfig staged = config;
    ParallelOptions& its = staged.session.parallel;
    its.layers = balanced_pipeline(recorded.layer_times(info), its.ranks());
    its.virtual_ranks = *micro_batches > 0 ? *micro_batches : default_micro_batches(batch_size, its.ranks());
    check_parallel(its);
    if (batch_size % its.virtual_ranks != 0) return best.second;
    const RecordedTraining pipeline(staged, datasets, whole_batch(staged, datasets, batch_size), its.layers);
    if (best.first.excess_bytes == 0 && pipeline.shortest_pipeline(info) >= best.first.microseconds) return best.second;
    if (pipeline.simulate(info, true) < best.first) return its.layers;
  } catch (const PlanError&) {
    throw;
  } catch (const Error&) {  // no pipeline can run this step, or other options exclude it
  }
  return best.second;
}

void set_strategy(TrainConfig& config, DatasetPool& datasets) {
  const SessionOptions options = session_options(config);
  const ParallelOptions& parallel = options.parallel;
  const std::string& name = parallel.strategy;
  const bool by_rank_0 = parallel.ranks() > 1 && (name == "layerwise" || name == "auto" || name == "pipeline");
  Strategy found;
  if (!by_rank_0 || rank(parallel) == 0) {
    found = find_strategy(
        config, datasets, config.batch_size,
        [&] {
          DeviceInfo info = make_backend(find_device(options.device).device, options.threads)->info();
          if (parallel.ranks() > 1) info.link = parallel.communicator->link();
          return info;
        },
        parallel.virtual_ranks);
  }
  if (by_rank_0) {
    // The second axis; then a line per layer: its dimensions, or that a stage begins with it, and its name.
    constexpr std::string_view kStage = "stage";
    std::string text = std::to_string(found.second_axis);
    for (const std::string& layer : found.stages) text += message('\n', kStage, ' ', layer);
    for (const auto& [layer, dimensions] : found) text += '\n' + dimensions + ' ' + layer;
    std::istringstream lines(of_first_rank(parallel, text));
    found = {};
    lines >> found.second_axis;
    for (std::string dimensions, layer; lines >> dimensions && std::getline(lines >> std::ws, layer);) {
      if (dimensions == kStage) {
        found.stages.push_back(layer);
      } else {
        found[layer] = dimensions;
      }
    }
  }
  ParallelOptions& chosen = config.session.parallel;
  chosen.layers = std::move(found);
  if (chosen.stages() > 1) {
    if (name == "auto") chosen.strategy = "pipeline";  // a run that continues must keep its micro-batches
    if (chosen.virtual_ranks == 0) chosen.virtual_ranks = default_micro_batches(config.batch_size, chosen.stages());
  }
}

}  // namespace braid
