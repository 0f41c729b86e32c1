#include "scheduler/elimination.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace braid::scheduler {

namespace {

constexpr std::size_t kMostEntries = std::size_t{1} << 20;

/// A cost that depends on the configurations of some layers, the last of which varies fastest.
struct Table {
  std::vector<std::size_t> layers;  // ascending
  std::vector<double> costs;
};

class Elimination {
 public:
  explicit Elimination(const LayerCosts& costs) : chosen_(costs.layers.size()) {
    for (std::size_t i = 0; i < costs.layers.size(); ++i) {
      counts_.push_back(costs.layers[i].size());
      tables_.push_back({{i}, costs.layers[i]});
    }
    for (const LayerCosts::Pair& pair : costs.pairs) tables_.push_back(ordered(pair));
  }

  std::vector<std::size_t> run() {
    std::vector<std::size_t> left(chosen_.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {
      const auto next = std::ranges::min_element(left, {}, [&](std::size_t layer) { return entries(others(layer)); });
      eliminate(*next);
      left.erase(next);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      chosen_[step->layer] = step->best[place(step->others)];
    }
    return chosen_;
  }

 private:
  /// An eliminated layer, and its best configuration for every combination of its neighbours'.
  struct Step {
    std::size_t layer;
    std::vector<std::size_t> others, best;
  };

  Table ordered(const LayerCosts::Pair& pair) const {
    const std::size_t a = pair.first, b = pair.second;
    if (a < b) return {{a, b}, pair.costs};
    Table turned{{b, a}, {}};
    for (std::size_t k = 0; k < counts_[b]; ++k) {
      for (std::size_t i = 0; i < counts_[a]; ++i) turned.costs.push_back(pair.costs[i * counts_[b] + k]);
    }
    return turned;
  }

  static bool has(const Table& table, std::size_t layer) { return std::ranges::binary_search(table.layers, layer); }

  /// The layers that a layer shares a cost with.
  std::vector<std::size_t> others(std::size_t layer) const {
    std::vector<std::size_t> all;
    for (const Table& table : tables_) {
      if (has(table, layer)) all.insert(all.end(), table.layers.begin(), table.layers.end());
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase(all, layer);
    return all;
  }

  std::size_t entries(std::span<const std::size_t> layers) const {
    std::size_t count = 1;
    for (const std::size_t layer : layers) count = std::min(count * counts_[layer], kMostEntries + 1);
    return count;
  }

  /// The entry of a table for the configurations that are chosen.
  std::size_t place(std::span<const std::size_t> layers) const {
    std::size_t at = 0;
    for (const std::size_t layer : layers) at = at * counts_[layer] + chosen_[layer];
    return at;
  }

  void eliminate(std::size_t layer) {
    std::vector<std::size_t> others = this->others(layer);
    std::vector<Table> its;
    std::erase_if(tables_, [&](Table& table) {
      if (!has(table, layer)) return false;
      its.push_back(std::move(table));
      return true;
    });
    Step step{layer, std::move(others), {}};
    if (entries(step.others) > kMostEntries) return fix(std::move(step), its);
    Table made{step.others, {}};
    for_each(step.others, [&] {
      double least = std::numeric_limits<double>::infinity();
      std::size_t best = 0;
      for (chosen_[layer] = 0; chosen_[layer] < counts_[layer]; ++chosen_[layer]) {
        double sum = 0;
        for (const Table& table : its) sum += table.costs[place(table.layers)];
        if (sum < least) least = sum, best = chosen_[layer];
      }
      step.best.push_back(best);
      made.costs.push_back(least);
    });
    if (!step.others.empty()) tables_.push_back(std::move(made));
    steps_.push_back(std::move(step));
  }

  /// Gives a layer its own cheapest configuration; its tables lose it.
  void fix(Step step, std::vector<Table>& its) {
    const std::size_t layer = step.layer;
    std::vector<double> own(counts_[layer]);
    for (const Table& table : its) {
      if (table.layers.size() > 1) continue;
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += table.costs[i];
    }
    step.others.clear();
    step.best = {static_cast<std::size_t>(std::ranges::min_element(own) - own.begin())};
    for (Table& table : its) {
      if (table.layers.size() == 1) continue;
      Table smaller;
      for (const std::size_t each : table.layers) {
        if (each != layer) smaller.layers.push_back(each);
      }
      chosen_[layer] = step.best.front();
      for_each(smaller.layers, [&] { smaller.costs.push_back(table.costs[place(table.layers)]); });
      tables_.push_back(std::move(smaller));
    }
    steps_.push_back(std::move(step));
  }

  /// Calls with all combinations of configurations chosen for these layers, the last varying fastest.
  template <class Call>
  void for_each(std::span<const std::size_t> layers, const Call& call) {
    if (layers.empty()) return call();
    for (chosen_[layers[0]] = 0; chosen_[layers[0]] < counts_[layers[0]]; ++chosen_[layers[0]]) {
      for_each(layers.subspan(1), call);
    }
  }

  std::vector<std::size_t> counts_;  // configurations per layer
  std::vector<std::size_t> chosen_;
  std::vector<Table> tables_;
  std::vector<Step> steps_;
};

}  // namespace

double total(const LayerCosts& costs, std::span<const std::size_t> configurations) {
  double sum = 0;
  for (std::size_t i = 0; i < costs.layers.size(); ++i) sum += costs.layers[i][configurations[i]];
  for (const auto& [first, second, pair] : costs.pairs) {
    sum += pair[configurations[first] * costs.layers[second].size() + configurations[second]];
  }
  return sum;
}

std::vector<std::size_t> cheapest(const LayerCosts& costs) { return Elimination(costs).run(); }

}  // namespace braid::scheduler
