#pragma once
// Chooses a configuration for each of several layers such that the sum of times is the least: of each layer, and of
// each pair of layers that exchange a tensor. The bytes of all may have a limit.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace braid::scheduler {

struct LayerCost {
  double time = 0, bytes = 0;

  LayerCost& operator+=(const LayerCost& other) { return time += other.time, bytes += other.bytes, *this; }
};

struct LayerCosts {
  /// Costs of two layers, for every pair of their configurations: costs[a × configurations of the second + b].
  struct Pair {
    std::size_t first, second;
    std::vector<LayerCost> costs;
  };
  std::vector<std::vector<LayerCost>> layers;  ///< per layer, of each of its configurations: at least one
  std::vector<Pair> pairs = {};                ///< a pair may occur several times
};

/// The sum of costs of these configurations, one per layer.
LayerCost total(const LayerCosts& costs, std::span<const std::size_t> configurations);

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The `count` choices of configurations with the least times whose bytes are within `limit`, the fastest first; fewer
/// if there are no more. If there is none, the one with the fewest bytes.
///
/// Layers are eliminated one after another: what the best configurations of a layer cost depends only on the layers
/// that it shares a cost with, and becomes a cost of these. With one or two of them, this is the node and edge
/// elimination of Jia et al. (2018), section 5.2; with more, the same, so nothing remains to be enumerated. Such a cost
/// is a set: under a limit, of every time and bytes that fewer than `count` others are as good as in both (a Pareto
/// set); without, of the `count` least times. Time and memory grow with the largest number of layers that a cost
/// depends on, and with the sizes of the sets. Above 2^20 entries, a layer first gets its own cheapest configuration;
/// sets above kMostChoices entries are thinned evenly. Only then may better choices be missed.
std::vector<std::vector<std::size_t>> cheapest(const LayerCosts& costs, std::size_t count = 1, double limit = kNoLimit);
inline constexpr std::size_t kMostChoices = 256;

}  // namespace braid::scheduler
