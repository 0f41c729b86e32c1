#pragma once
// Chooses a configuration for each of several layers such that the sum of costs is the least: of each layer, and of
// each pair of layers that exchange a tensor.

#include <cstddef>
#include <span>
#include <vector>

namespace braid::scheduler {

struct LayerCosts {
  /// Of two layers, for every pair of their configurations: costs[a × configurations of the second + b].
  struct Pair {
    std::size_t first, second;
    std::vector<double> costs;
  };
  std::vector<std::vector<double>> layers;  ///< per layer, of each of its configurations: at least one
  std::vector<Pair> pairs = {};             ///< a pair may occur several times
};

/// The sum of costs of these configurations, one per layer.
double total(const LayerCosts& costs, std::span<const std::size_t> configurations);

/// The configurations with the least sum. Layers are eliminated one after another: what the best configuration of a
/// layer costs depends only on the layers that it shares a cost with, and becomes a cost of these. With one or two of
/// them, this is the node and edge elimination of Jia et al. (2018), section 5.2; with more, the same, so nothing
/// remains to be enumerated. Time and memory grow with the largest number of layers that such a cost depends on. Above
/// 2^20 entries, a layer first gets its own cheapest configuration; only then may the sum not be the least.
std::vector<std::size_t> cheapest(const LayerCosts& costs);

}  // namespace braid::scheduler
