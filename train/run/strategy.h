#pragma once
// Which layers of a model are divided along which dimension, when several ranks train it (Strategy).

#include <map>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "train/run/factories.h"

namespace braid {

/// A layer of a recorded step.
struct LayerDimensions {
  std::string name;
  bool is_fully_connected = false;
  /// Dimension along which the layer can be divided → the largest number of equal parts. Others divide it too.
  std::map<char, std::int64_t> parts = {};
};

/// The layers of what has been recorded, in their order.
std::vector<LayerDimensions> layers_of(const Tape& tape);

/// "One weird trick" (Krizhevsky, 2014): fully connected layers are divided along their channels, so that ranks
/// exchange activations instead of the gradients of most weights; other layers along samples.
Strategy one_weird_trick(const std::vector<LayerDimensions>& layers, int shards);

/// Reads a strategy from YAML or JSON such as {layers: {classifier.1: {c: 4}, conv1: {h: 4}}}: every layer with the
/// number of parts along a dimension, which is that of the shards; or 1, if it is not divided. Throws ConfigError with
/// line and column if there is no such layer, or it cannot have as many equal parts.
Strategy read_strategy(const std::string& path, const std::vector<LayerDimensions>& layers, int shards);
/// The same as text, a layer per line.
std::string to_json(const Strategy& strategy, int shards);

/// The strategy that the config asks for: ParallelOptions::strategy. Records a step to find the layers.
Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets);

}  // namespace braid
