#pragma once
// Which layers of a model are divided along which dimension, when several ranks train it (Strategy).

#include <functional>
#include <string>
#include <vector>

#include "runtime/compile/layerwise.h"
#include "train/run/factories.h"

namespace braid {

/// Streams that plans are simulated on if the config says `auto`.
inline constexpr int kPlannedStreams = 4;

/// "One weird trick" (Krizhevsky, 2014): fully connected layers are divided along their channels, so that ranks
/// exchange activations instead of the gradients of most weights; other layers along samples.
Strategy one_weird_trick(const std::vector<LayerDimensions>& layers);

/// Reads a strategy from YAML or JSON such as {layers: {classifier.1: {c: 4}, conv1: {h: 4}}}: every layer with the
/// number of parts along a dimension, one for each shard; or 1, if it is not divided. Throws ConfigError with line and
/// column if there is no such layer, or it cannot be divided like that.
Strategy read_strategy(const std::string& path, const std::vector<LayerDimensions>& layers, int shards);
/// The same as text, a layer per line.
std::string to_json(const Strategy& strategy, int shards);

/// The names of strategies that are found from the layers; every other name is a file's. The last, auto, is whichever
/// of the others has the shortest simulated step.
inline const std::vector<std::string> kStrategies{"data", "owt", "layerwise", "auto"};

/// The strategy that the config asks for (ParallelOptions::strategy), for batches of this size on all ranks together.
/// Records a step to find the layers. Calls `device` only for layerwise (runtime/compile/layerwise.h) and auto; it
/// returns a rank's device with its link.
Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size,
                       const std::function<DeviceInfo()>& device);
/// The same for a training. Rank 0 finds what depends on predicted times, and sends it to the others.
Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets);

}  // namespace braid
