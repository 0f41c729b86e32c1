#include "scheduler/elimination.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

namespace braid::scheduler {

namespace {

constexpr std::size_t kMostEntries = std::size_t{1} << 20;

/// A sum of costs, and the decisions that lead to it, which do not depend on each other.
struct Choice {
  LayerCost cost;
  std::uint32_t first = 0, second = 0;  // 0: none
  std::size_t configuration = 0;        // of the layer that is eliminated
};

/// The choices that remain for every combination of configurations of some layers, the last of which varies fastest.
struct Table {
  std::vector<std::size_t> layers;  // ascending
  std::vector<Choice> choices = {};
  std::vector<std::size_t> ends = {};  // per combination

  void end() { ends.push_back(choices.size()); }
  std::span<const Choice> at(std::size_t combination) const {
    const std::size_t begin = combination == 0 ? 0 : ends[combination - 1];
    return std::span(choices).subspan(begin, ends[combination] - begin);
  }
};

class Elimination {
 public:
  Elimination(const LayerCosts& costs, std::size_t count, double limit)
      : count_(count), limit_(limit), chosen_(costs.layers.size()), others_(costs.layers.size()) {
    for (const std::vector<LayerCost>& layer : costs.layers) counts_.push_back(layer.size());
    for (std::size_t i = 0; i < costs.layers.size(); ++i) add_table({i}, costs.layers[i]);
    for (const LayerCosts::Pair& pair : costs.pairs) {
      add_table({pair.first, pair.second}, pair.costs);
      others_[pair.first].insert(pair.second);
      others_[pair.second].insert(pair.first);
    }
  }

  std::vector<std::vector<std::size_t>> run() {
    std::vector<std::size_t> left(chosen_.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {
      const auto next = std::ranges::min_element(left, {}, [&](std::size_t layer) { return entries(others_[layer]); });
      eliminate(*next);
      left.erase(next);
    }
    std::vector<Choice> best = sums(tables_);  // depend on no layer any more
    keep_best(best);
    std::vector<std::vector<std::size_t>> found;
    for (const Choice& choice : std::span(best).first(std::min(count_, best.size()))) {
      decide(choice.first);
      decide(choice.second);
      found.push_back(chosen_);
    }
    return found;
  }

 private:
  /// The configuration of a layer, unless it is none, and the decisions before.
  struct Decision {
    std::size_t layer, configuration;
    std::uint32_t first, second;
  };
  static constexpr std::size_t kNoLayer = static_cast<std::size_t>(-1);

  /// Adds costs without the bytes that all configurations need: the rest must be within the rest of the limit.
  void add_table(std::vector<std::size_t> layers, std::span<const LayerCost> costs) {
    const double least = std::ranges::min(costs, {}, &LayerCost::bytes).bytes;
    limit_ -= least;
    Table table{layers};
    std::ranges::sort(table.layers);
    for_each(table.layers, [&] {
      const LayerCost& cost = costs[place(layers)];
      table.choices.push_back({{cost.time, limit_ < kNoLimit ? cost.bytes - least : 0}});
      table.end();
    });
    tables_.push_back(std::move(table));
  }

  static bool has(const Table& table, std::size_t layer) { return std::ranges::binary_search(table.layers, layer); }

  std::size_t entries(const std::set<std::size_t>& layers) const {
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

  std::uint32_t add(const Decision& decision) {
    decisions_.push_back(decision);
    return static_cast<std::uint32_t>(decisions_.size() - 1);
  }

  void decide(std::uint32_t decision) {
    if (decision == 0) return;
    const auto& [layer, configuration, first, second] = decisions_[decision];
    if (layer != kNoLayer) chosen_[layer] = configuration;
    decide(first);
    decide(second);
  }

  /// Leaves the choices within the limit that fewer than count_ others are as good as, the fastest first.
  void keep_best(std::vector<Choice>& choices) const {
    std::ranges::sort(choices, {}, [](const Choice& choice) { return std::tie(choice.cost.time, choice.cost.bytes); });
    std::vector<double> fewest;  // bytes of those that are kept, the count_ fewest, ascending
    std::erase_if(choices, [&](const Choice& choice) {
      const double bytes = choice.cost.bytes;
      if (bytes > limit_ || (fewest.size() == count_ && fewest.back() <= bytes)) return true;
      fewest.insert(std::ranges::upper_bound(fewest, bytes), bytes);
      if (fewest.size() > count_) fewest.pop_back();
      return false;
    });
    const std::size_t most = std::max(kMostChoices, count_), size = choices.size();
    if (size <= most) return;
    for (std::size_t i = 0; i < most; ++i) choices[i] = choices[i * (size - 1) / (most - 1)];
    choices.resize(most);
  }

  /// The sums of one choice from each table, for the configurations that are chosen.
  std::vector<Choice> sums(std::span<const Table> tables) {
    std::vector<Choice> all(1);
    for (const Table& table : tables) {
      const std::span<const Choice> its = table.at(place(table.layers));
      if (its.size() == 1 && its.front().first == 0) {
        for (Choice& choice : all) choice.cost += its.front().cost;
        continue;
      }
      std::vector<Choice> made;
      for (Choice& choice : all) {
        if (choice.second != 0) choice.first = add({kNoLayer, 0, choice.first, std::exchange(choice.second, 0)});
        for (const Choice& other : its) {
          Choice& sum = made.emplace_back(choice);
          sum.cost += other.cost;
          (sum.first == 0 ? sum.first : sum.second) = other.first;
        }
      }
      if (all.size() > 1 && its.size() > 1) keep_best(made);
      all = std::move(made);
    }
    return all;
  }

  void eliminate(std::size_t layer) {
    const std::vector<std::size_t> others(others_[layer].begin(), others_[layer].end());
    for (const std::size_t other : others) others_[other].erase(layer);
    std::vector<Table> its;
    std::erase_if(tables_, [&](Table& table) {
      if (!has(table, layer)) return false;
      its.push_back(std::move(table));
      return true;
    });
    if (entries(others_[layer]) > kMostEntries) return fix(layer, its);
    for (const std::size_t other : others) {
      others_[other].insert(others.begin(), others.end());
      others_[other].erase(other);
    }
    Table made{others};
    for_each(others, [&] {
      std::vector<Choice> best;
      for (chosen_[layer] = 0; chosen_[layer] < counts_[layer]; ++chosen_[layer]) {
        for (Choice& choice : sums(its)) best.push_back({choice.cost, choice.first, choice.second, chosen_[layer]});
      }
      keep_best(best);
      for (const auto& [cost, first, second, configuration] : best) {
        made.choices.push_back({cost, add({layer, configuration, first, second})});
      }
      made.end();
    });
    tables_.push_back(std::move(made));
  }

  /// Gives a layer its own cheapest configuration; its tables lose it.
  void fix(std::size_t layer, const std::vector<Table>& its) {
    std::vector<double> own(counts_[layer]);
    for (const Table& table : its) {
      if (table.layers.size() > 1) continue;
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += table.at(i).empty() ? kNoLimit : table.at(i)[0].cost.time;
    }
    const auto best = static_cast<std::size_t>(std::ranges::min_element(own) - own.begin());
    for (const Table& table : its) {
      Table smaller{table.layers};
      std::erase(smaller.layers, layer);
      chosen_[layer] = best;
      for_each(smaller.layers, [&] {
        const std::span<const Choice> choices = table.at(place(table.layers));
        smaller.choices.insert(smaller.choices.end(), choices.begin(), choices.end());
        smaller.end();
      });
      tables_.push_back(std::move(smaller));
    }
    tables_.push_back({{}, {{{}, add({layer, best, 0, 0})}}, {1}});
  }

  /// Calls with all combinations of configurations chosen for these layers, the last varying fastest.
  template <class Call>
  void for_each(std::span<const std::size_t> layers, const Call& call) {
    if (layers.empty()) return call();
    for (chosen_[layers[0]] = 0; chosen_[layers[0]] < counts_[layers[0]]; ++chosen_[layers[0]]) {
      for_each(layers.subspan(1), call);
    }
  }

  std::size_t count_;
  double limit_;
  std::vector<std::size_t> counts_;  // configurations per layer
  std::vector<std::size_t> chosen_;
  std::vector<std::set<std::size_t>> others_;  // per layer, those that it shares a cost with
  std::vector<Table> tables_;
  std::vector<Decision> decisions_{1};
};

}  // namespace

LayerCost total(const LayerCosts& costs, std::span<const std::size_t> configurations) {
  LayerCost sum;
  for (std::size_t i = 0; i < costs.layers.size(); ++i) sum += costs.layers[i][configurations[i]];
  for (const auto& [first, second, pair] : costs.pairs) {
    sum += pair[configurations[first] * costs.layers[second].size() + configurations[second]];
  }
  return sum;
}

std::vector<std::vector<std::size_t>> cheapest(const LayerCosts& costs, std::size_t count, double limit) {
  const auto fits = [&](std::span<const std::size_t> chosen) { return total(costs, chosen).bytes <= limit; };
  std::vector<std::vector<std::size_t>> found = Elimination(costs, count, kNoLimit).run();
  if (!std::ranges::all_of(found, fits)) found = Elimination(costs, count, limit).run();
  if (!found.empty()) return found;
  LayerCosts bytes = costs;
  for (std::vector<LayerCost>& layer : bytes.layers) {
    for (LayerCost& cost : layer) cost.time = cost.bytes;
  }
  for (LayerCosts::Pair& pair : bytes.pairs) {
    for (LayerCost& cost : pair.costs) cost.time = cost.bytes;
  }
  return Elimination(bytes, 1, kNoLimit).run();
}

}  // namespace braid::scheduler
