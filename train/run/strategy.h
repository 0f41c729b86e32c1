#pragma once
// Which layers of a model are divided along which dimension, when several ranks train it (Strategy).

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/compile/ranks/layerwise.h"
#include "train/run/factories.h"

namespace braid {

/// Streams that plans are simulated on if the config says `auto`.
inline constexpr int kPlannedStreams = 4;

/// "One weird trick" (Krizhevsky, 2014): fully connected layers are divided along their channels, so that ranks
/// exchange activations instead of the gradients of most weights; other layers along samples.
Strategy one_weird_trick(const std::vector<LayerDimensions>& layers);

/// Reads a strategy from YAML or JSON such as {layers: {classifier.1: {c: 4}, conv1: {h: 2, w: 2}}}: every layer with
/// the numbers of parts along its dimensions, which are the shards along the axes of their mesh, in this order; 1: not
/// divided. {_: 2, c: 2} is not divided along the first axis. The key second_axis is the number of shards along the
/// second; without it, the mesh is the first on which all layers can be divided so: one axis, else two with the fewest
/// shards along the second.
/// `layers` are those of the model with their dimensions on a mesh (LayeredStep::second_axis). Throws ConfigError with
/// line and column if there is no such layer, or it cannot be divided like that.
using LayersOnMesh = std::function<std::vector<LayerDimensions>(int second_axis)>;
Strategy read_strategy(const std::string& path, const LayersOnMesh& layers, int shards);
/// The numbers of parts of a layer, each along a dimension of Strategy, in the order of the axes of the mesh; '_' where
/// an axis before another does not divide it.
using Parts = std::vector<std::pair<char, std::int64_t>>;
Parts parts_of(std::string_view dimensions, int shards, int second_axis);
/// The same as text, a layer per line.
std::string to_json(const Strategy& strategy, int shards);

/// Reads the stages of a pipeline such as {stages: [layer2.0.conv1, layer3.0.conv1]}: the layers that they begin with,
/// but for the first, in the order of the forward pass. Throws ConfigError with line and column if there are no such
/// layers in this order, or it is not a stage for each rank.
Strategy read_stages(const std::string& path, const std::vector<std::string>& layers, int ranks);

/// The names of strategies that are found from the layers; every other name is a file's.
/// layerwise has the shortest simulated step, with buckets that are not improved, of data, owt and those with the least
/// sums of costs, two if gradients are added after the backward pass, and two if mostly during it. The latter are on a
/// mesh of one axis, or of two whose second has the largest divisor of the shards that is at most their square root.
/// pipeline has stages of about equal times. auto has the shortest simulated step of all; it is a pipeline only if
/// other options and its micro-batches allow it. Under a memory limit, layerwise and auto are the fastest whose plan
/// fits, or else the one whose plan needs the least memory.
inline const std::vector<std::string> kStrategies{"data", "owt", "layerwise", "auto", "pipeline"};

/// Whether a strategy, by this name or in this file, is a pipeline.
bool has_stages(const std::string& strategy);

/// The micro-batches of a pipeline if the config sets none: the most that divide the batch into parts of at least four
/// samples, up to four for each stage. At least one.
int default_micro_batches(std::int64_t batch_size, int stages);

/// The strategy that the config asks for (ParallelOptions::strategy), for batches of this size on all ranks together.
/// Records a step to find the layers. Calls `device` only for pipelines, layerwise (runtime/compile/ranks/layerwise.h)
/// and auto; it returns a rank's device with its link. auto considers a pipeline of this many micro-batches, 0:
/// default_micro_batches(); nullopt: none.
Strategy find_strategy(const TrainConfig& config, DatasetPool& datasets, std::int64_t batch_size,
                       const std::function<DeviceInfo()>& device, std::optional<int> micro_batches = 0);
/// Sets that of a training, and its micro-batches. Rank 0 finds what depends on predicted times, and sends it to the
/// others.
void set_strategy(TrainConfig& config, DatasetPool& datasets);

}  // namespace braid
