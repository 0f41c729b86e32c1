#pragma once
// Chooses along which dimension each layer is divided over ranks, by predicted times: layer-wise parallelism (Jia et
// al., "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks", 2018).

#include <span>
#include <string>
#include <vector>

#include "core/comm/parallel_options.h"
#include "core/graph/step_graph.h"
#include "scheduler/elimination.h"
#include "scheduler/problem.h"

namespace braid {

/// A recorded step in which samples are split, and the costs of each rank.
struct LayeredStep {
  const StepGraph& graph;
  std::span<const std::string> layers;  ///< per node: the layer that it is of, or whose gradient; may be empty
  int shards = 1;
  int second_axis = 1;  ///< Strategy::second_axis
  scheduler::CostModel model = {};

  ShardMesh mesh() const { return {.shards = shards, .second = second_axis, .ranks = shards}; }
};

/// A layer, and how it can be divided over the shards.
struct LayerDimensions {
  std::string name;
  std::vector<std::string> dimensions =
      {};                           ///< as in Strategy: of "nhwc" or, on a mesh of two axes, of pairs of "nhwc_"
  bool is_fully_connected = false;  ///< its op is `linear`
  bool has_statistics = false;      ///< its op updates statistics of the samples of each shard
};

/// The layers of a step, in their order: those with an op that names a dimension. The first such op decides: a layer
/// can be divided along a dimension if that op can, and along channels if its parameters also have equal parts.
/// Along the second axis of the mesh, parts of the first are divided.
std::vector<LayerDimensions> layers_of(const LayeredStep& step);

struct LayerwiseCosts {
  std::vector<std::string> layers;
  /// Per layer, its configurations: LayerDimensions::dimensions, and undivided. Batch norm with statistics of each
  /// shard has only n: along another dimension it would use statistics of all samples, which changes the training.
  std::vector<std::vector<std::string>> dimensions;
  scheduler::LayerCosts costs;  ///< microseconds, and bytes of a rank's arena
  /// Per layer and configuration, the microseconds of `costs` in which gradients of its parameters are added, if only
  /// the update reads them. In a step, part of this overlaps with the backward pass.
  std::vector<std::vector<double>> synchronizing = {};
  int second_axis = 1;
};

/// What each layer costs in each configuration: its nodes and those that follow them, by analytic_costs() of a shard's
/// part; the update of its parameters; and the collectives that the partition inserts inside it. Pairs of layers
/// cost the collectives between them. Everything runs one after another: nothing overlaps, and every reader of a value
/// has its own collective unless it is of the same layer.
/// The bytes are those that SessionOptions::memory_limit limits, as if no two values shared memory: a rank's part of
/// the activations that the backward pass needs, of those that it needs in another layout once more, and of the
/// gradients of parameters. Values that do not live until the backward pass, gradients of activations and workspaces
/// are left out, and so is what is not in the arena: parameters and optimizer state.
LayerwiseCosts layerwise_costs(const LayeredStep& step);

struct LayerwiseStrategy {
  Strategy strategy;
  scheduler::LayerCost cost;
};

/// The strategies of scheduler::cheapest(): those with the least times, within `limit` bytes, if this share of
/// LayerwiseCosts::synchronizing does not overlap.
std::vector<LayerwiseStrategy> layerwise(const LayerwiseCosts& costs, std::size_t count, double limit,
                                         double exposed = 1);

}  // namespace braid
