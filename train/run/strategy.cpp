#include "train/run/strategy.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "core/text/suggestion.h"
#include "runtime/agreement.h"
#include "runtime/compile/bucket_choice.h"
#include "runtime/compile/planner.h"
#include "runtime/device_check.h"
#include "scheduler/policy.h"
#include "train/config/tree.h"
#include "train/run/learner.h"

namespace braid {

namespace {

constexpr std::string_view kDimensions = "nhwc";

/// The number of parts along the only dimension of an entry such as {c: 4}.
std::pair<char, std::int64_t> read_split(const ConfigNode::Entry& layer) {
  const auto& entries = layer.value.entries;
  BRAID_CHECK(layer.value.kind == ConfigNode::Kind::map && entries.size() == 1, ConfigError, layer.location,
              ": layers.", layer.key, ": expected one dimension and a number of parts, as in {c: 4}");
  const auto& [key, location, value] = entries.front();
  BRAID_CHECK(key.size() == 1 && kDimensions.find(key) != std::string_view::npos, ConfigError, location, ": layers.",
              layer.key, ": expected n (samples), h (height), w (width) or c (channels), got '", key, "'");
  std::int64_t parts = 0;
  const char* const end = value.text.data() + value.text.size();
  const bool is_number = std::from_chars(value.text.data(), end, parts).ptr == end && parts > 0;
  BRAID_CHECK(is_number, ConfigError, value.location, ": layers.", layer.key, ".", key,
              ": expected a number of parts, got '", value.text, "'");
  return {key.front(), parts};
}

/// A training step of the config with the samples of all shards, which does not run.
class RecordedTraining {
 public:
  RecordedTraining(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size, const Strategy& strategy)
      : config_(recording(config, strategy)),
        shards_(config_.session.parallel.shards),
        session_(config_.session),
        dataset_(datasets.get(config_, Split::train)),
        learner_(config_, session_, *dataset_),
        step_(session_.step()),
        graph_(session_.tape().graph()) {
    Batch batch = blank_batch(*dataset_, std::max<std::int64_t>(shards_, batch_size - batch_size % shards_));
    batch.split = true;
    learner_.record(batch);
    for (NodeId node = 0; node < graph_.node_count(); ++node) layers_.push_back(session_.tape().layer(node));
  }
  ~RecordedTraining() { step_.discard(); }
  RecordedTraining(const RecordedTraining&) = delete;
  RecordedTraining& operator=(const RecordedTraining&) = delete;

  LayeredStep layered(const DeviceInfo* device = nullptr) const {
    LayeredStep step{.graph = graph_, .layers = layers_, .shards = shards_};
    if (device != nullptr) {
      step.device = *device;
      step.widths = widths(config_.session.width, device->max_width);
      step.tf32 = rounds_to_tf32(config_.session, *device);
    }
    return step;
  }

  /// The simulated time of one step on as many ranks as there are shards, without parallel.shard.
  double microseconds(const DeviceInfo& device) const {
    const SessionOptions& options = config_.session;
    const int streams = options.streams > 0 ? options.streams : kPlannedStreams;
    const std::vector<int> widths = braid::widths(options.width, device.max_width);
    const bool tf32 = rounds_to_tf32(options, device);
    const scheduler::Policy policy = scheduler::find_policy(options.policy);
    ops::Partition partition{.ranks = shards_, .shards = shards_};
    if (const std::int64_t bytes = options.parallel.bucket_bytes; bytes > 0) {
      partition.bucket_bytes = bytes;
    } else {
      partition = with_buckets(graph_, partition, device, widths, streams, policy, tf32);
    }
    const RewrittenGraph planned = as_planned(graph_, partition);
    scheduler::Costs costs = scheduler::analytic_costs(planned.graph, device, widths, tf32);
    return scheduler::make_plan(
               scheduler::make_problem(planned.graph, std::move(costs), device, streams, nullptr, tf32), policy,
               options.policy)
        .makespan;
  }

 private:
  static TrainConfig recording(TrainConfig config, const Strategy& strategy) {
    SessionOptions& options = config.session;
    options = recording_options(std::move(options));
    options.parallel = {.shards = options.parallel.shard_count(),
                        .bucket_bytes = options.parallel.bucket_bytes,
                        .layers = strategy,
                        .sync_batch_norm = options.parallel.sync_batch_norm};
    return config;
  }

  const TrainConfig config_;
  const int shards_;
  Session session_;
  const std::shared_ptr<const ImageDataset> dataset_;
  Learner learner_;
  Step step_;
  const StepGraph& graph_;
  std::vector<std::string> layers_;  // per node
};

}  // namespace

Strategy one_weird_trick(const std::vector<LayerDimensions>& layers) {
  Strategy strategy;
  for (const LayerDimensions& layer : layers) {
    if (layer.is_fully_connected) strategy[layer.name] = layer.dimensions.find('c') == std::string::npos ? "n" : "c";
  }
  return strategy;
}

Strategy read_strategy(const std::string& path, const std::vector<LayerDimensions>& layers, int shards) {
  const ConfigNode file = read_config_file(path);
  for (const ConfigNode::Entry& entry : file.entries) {
    BRAID_CHECK(entry.key == "layers", ConfigError, entry.location, ": expected the key 'layers', got '", entry.key,
                "'");
  }
  const ConfigNode::Entry* list = file.find("layers");
  BRAID_CHECK(list != nullptr && list->value.kind == ConfigNode::Kind::map, ConfigError, path,
              ": expected 'layers' with the dimension of each, as in {layers: {fc: {c: ", shards, "}}}");
  std::vector<std::string> names;
  for (const LayerDimensions& layer : layers) names.push_back(layer.name);
  Strategy strategy;
  for (const ConfigNode::Entry& entry : list->value.entries) {
    const auto layer = std::ranges::find(layers, entry.key, &LayerDimensions::name);
    BRAID_CHECK(layer != layers.end(), ConfigError, entry.location, ": layers: the model has no layer '", entry.key,
                "'", suggestion(entry.key, names));
    const auto [dimension, parts] = read_split(entry);
    BRAID_CHECK(parts == 1 || parts == shards, ConfigError, entry.location, ": layers.", entry.key, ".", dimension,
                ": expected ", shards, " parts, one for each shard, or 1, got ", parts);
    BRAID_CHECK(parts == 1 || layer->dimensions.find(dimension) != std::string::npos, ConfigError, entry.location,
                ": layers.", entry.key, ".", dimension, ": the layer cannot be divided into ", parts,
                " equal parts along this dimension",
                layer->dimensions.empty() ? "" : message("; it can along ", layer->dimensions));
    strategy[entry.key] = parts == 1 ? "_" : std::string(1, dimension);
  }
  return strategy;
}

std::string to_json(const Strategy& strategy, int shards) {
  std::string text = "{\"layers\": {";
  for (std::string_view before = "\n"; const auto& [layer, dimension] : strategy) {
    text += message(std::exchange(before, ",\n"), "  \"", layer, "\": {\"", dimension == "_" ? "n" : dimension,
                    "\": ", dimension == "_" ? 1 : shards, '}');
  }
  return text + "\n}}\n";
}

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size,
                       const std::function<DeviceInfo()>& device) {
  const ParallelOptions& parallel = config.session.parallel;
  const std::string& name = parallel.strategy;
  if (name == "data" || !parallel.divides()) return {};
  if (parallel.exchanges_otherwise()) {
    BRAID_CHECK(name == "auto", ConfigError,
                "[parallel] strategy: expected data or auto with compression, staleness or "
                "average_every, got ",
                name);
    return {};
  }
  const RecordedTraining recorded(config, datasets, batch_size, {});
  const std::vector<LayerDimensions> layers = layers_of(recorded.layered());
  if (name == "owt") return one_weird_trick(layers);
  if (name != "layerwise" && name != "auto") return read_strategy(name, layers, parallel.shard_count());
  const DeviceInfo info = device();
  const Strategy by_layer = layerwise(layerwise_costs(recorded.layered(&info)));
  if (name == "layerwise") return by_layer;
  Strategy best;
  double shortest = recorded.microseconds(info);
  for (const Strategy& other : {one_weird_trick(layers), by_layer}) {
    const double its = RecordedTraining(config, datasets, batch_size, other).microseconds(info);
    if (its < shortest) shortest = its, best = other;
  }
  return best;
}

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets) {
  const SessionOptions options = session_options(config);
  const ParallelOptions& parallel = options.parallel;
  const bool by_rank_0 = parallel.ranks() > 1 && (parallel.strategy == "layerwise" || parallel.strategy == "auto");
  Strategy found;
  if (!by_rank_0 || rank(parallel) == 0) {
    found = find_strategy(config, datasets, config.batch_size, [&] {
      DeviceInfo info = make_backend(find_device(options.device).device, options.threads)->info();
      if (parallel.ranks() > 1) info.link = parallel.communicator->link();
      return info;
    });
  }
  if (!by_rank_0) return found;
  std::string text;  // a line per layer: its dimension and its name
  for (const auto& [layer, dimension] : found) text += dimension + ' ' + layer + '\n';
  std::istringstream lines(of_first_rank(parallel, text));
  found.clear();
  for (std::string dimension, layer; lines >> dimension && std::getline(lines >> std::ws, layer);) {
    found[layer] = dimension;
  }
  return found;
}

}  // namespace braid
