#include "train/run/strategy.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "core/text/suggestion.h"
#include "runtime/agreement.h"
#include "runtime/compile/layerwise.h"
#include "runtime/compile/planner.h"
#include "runtime/device_check.h"
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

}  // namespace

Strategy one_weird_trick(const std::vector<LayerDimensions>& layers) {
  Strategy strategy;
  for (const LayerDimensions& layer : layers) {
    if (layer.is_fully_connected) strategy[layer.name] = layer.dimensions.find('c') == std::string::npos ? 'n' : 'c';
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
    strategy[entry.key] = parts == 1 ? '_' : dimension;
  }
  return strategy;
}

std::string to_json(const Strategy& strategy, int shards) {
  std::string text = "{\"layers\": {";
  for (std::string_view before = "\n"; const auto& [layer, dimension] : strategy) {
    text += message(std::exchange(before, ",\n"), "  \"", layer, "\": {\"", dimension == '_' ? 'n' : dimension,
                    "\": ", dimension == '_' ? 1 : shards, '}');
  }
  return text + "\n}}\n";
}

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size,
                       const std::function<DeviceInfo()>& device) {
  const ParallelOptions& parallel = config.session.parallel;
  if (parallel.strategy == "data" || !parallel.divides()) return {};
  const int shards = parallel.shard_count();
  TrainConfig alone = config;
  alone.session.device = "cpu";
  alone.session.draw_weights = false;
  alone.session.costs.clear();
  alone.session.parallel = {.shards = shards, .sync_batch_norm = parallel.sync_batch_norm};
  Session session(alone.session);
  const auto dataset = datasets.get(alone, Split::train);
  Learner learner(alone, session, *dataset);
  Step step = session.step();
  Batch batch = blank_batch(*dataset, std::max<std::int64_t>(shards, batch_size - batch_size % shards));
  batch.split = true;
  learner.record(batch);
  std::vector<std::string> layers;
  const Tape& tape = session.tape();
  for (NodeId node = 0; node < tape.graph().node_count(); ++node) layers.push_back(tape.layer(node));
  LayeredStep layered{.graph = tape.graph(), .layers = layers, .shards = shards};
  Strategy strategy;
  if (parallel.strategy == "owt") {
    strategy = one_weird_trick(layers_of(layered));
  } else if (parallel.strategy == "layerwise") {
    layered.device = device();
    layered.widths = widths(config.session.width, layered.device.max_width);
    layered.tf32 = rounds_to_tf32(config.session, layered.device);
    strategy = layerwise(layerwise_costs(layered));
  } else {
    strategy = read_strategy(parallel.strategy, layers_of(layered), shards);
  }
  step.discard();
  return strategy;
}

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets) {
  const SessionOptions options = session_options(config);
  Strategy found = find_strategy(config, datasets, config.batch_size, [&] {
    DeviceInfo info = make_backend(find_device(options.device).device, options.threads)->info();
    if (options.parallel.ranks() > 1) info.link = options.parallel.communicator->link();
    return info;
  });
  if (options.parallel.ranks() == 1 || options.parallel.strategy != "layerwise") return found;
  std::string text;  // a line per layer: its dimension and its name
  for (const auto& [layer, dimension] : found) text += dimension + layer + '\n';
  std::istringstream lines(of_first_rank(options.parallel, text));
  found.clear();
  for (std::string line; std::getline(lines, line);) found[line.substr(1)] = line[0];
  return found;
}

}  // namespace braid
