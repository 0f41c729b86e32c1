#include "train/run/strategy.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/text/suggestion.h"
#include "train/config/tree.h"
#include "train/run/learner.h"

namespace braid {

namespace {

constexpr std::string_view kDimensions = "nhwc";

/// The number of equal parts that all values of a node can have along an axis.
std::int64_t most_parts(char axis, const NodeAxes& axes, const NodeValues& node) {
  std::int64_t parts = 0;
  const auto add = [&](std::span<const ValueAxes> names, std::span<const ValueDesc> values) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (std::size_t k = 0; k < names[i].names.size(); ++k) {
        if (std::tolower(names[i].names[k]) == axis) {
          parts = std::gcd(parts, values[i].shape[static_cast<int>(k)]);
        }
      }
    }
  };
  add(axes.inputs, node.inputs);
  add(axes.outputs, node.outputs);
  return parts;
}

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

std::vector<LayerDimensions> layers_of(const Tape& tape) {
  std::vector<LayerDimensions> layers;
  std::map<std::string_view, std::size_t> places;
  for (NodeId id = 0; id < tape.graph().node_count(); ++id) {
    const std::string& name = tape.layer(id);
    if (name.empty()) continue;
    const auto [place, is_new] = places.try_emplace(name, layers.size());
    if (is_new) layers.push_back({.name = name});
    LayerDimensions& layer = layers[place->second];
    const Op& op = *tape.graph().node(id).op;
    const auto inputs = tape.graph().input_descs(id), outputs = tape.graph().output_descs(id);
    const NodeValues values{inputs, outputs};
    const NodeAxes axes = named_axes(op.axes(values).notation, values);
    layer.is_fully_connected |= op.name() == "linear";
    for (const char dimension : kDimensions) {
      if (const char axis = axis_of(dimension, op, values); axis != 0) {
        std::int64_t& parts = layer.parts[dimension];
        parts = std::gcd(parts, most_parts(axis, axes, values));
      }
    }
  }
  return layers;
}

Strategy one_weird_trick(const std::vector<LayerDimensions>& layers, int shards) {
  Strategy strategy;
  for (const LayerDimensions& layer : layers) {
    if (layer.is_fully_connected) strategy[layer.name] = layer.parts.at('c') % shards == 0 ? 'c' : 'n';
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
                ": expected ", shards, " parts, as there are shards, or 1, got ", parts);
    const auto most = layer->parts.find(dimension);
    BRAID_CHECK(parts == 1 || (most != layer->parts.end() && most->second % parts == 0), ConfigError, entry.location,
                ": layers.", entry.key, ".", dimension, ": ",
                most == layer->parts.end() ? "the layer cannot be divided along this dimension"
                                           : message("expected a divisor of ", most->second, ", got ", parts));
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

Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets) {
  const ParallelOptions& parallel = config.session.parallel;
  if (parallel.strategy == "data" || !parallel.divides()) return {};
  TrainConfig alone = config;
  alone.session = {.device = "cpu", .draw_weights = false};
  Session session(alone.session);
  const auto dataset = datasets.get(alone, Split::train);
  Learner learner(alone, session, *dataset);
  Step step = session.step();
  learner.record(blank_batch(*dataset, alone.batch_size));
  const std::vector<LayerDimensions> layers = layers_of(session.tape());
  step.discard();
  const int shards = parallel.shard_count();
  return parallel.strategy == "owt" ? one_weird_trick(layers, shards)
                                    : read_strategy(parallel.strategy, layers, shards);
}

}  // namespace braid
