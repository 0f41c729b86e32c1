#include "models/zoo/wired/genotype.h"

#include <algorithm>
#include <iterator>

#include "core/text/text.h"

namespace braid::models {

std::vector<int> Genotype::modules(int layer) const {
  std::vector<int> list = layers[static_cast<std::size_t>(layer)];
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

Genotype random_genotype(const PathGrid& grid, Generator& random) {
  Genotype genotype;
  for (int layer = 0; layer < grid.layers; ++layer) {
    std::vector<int>& genes = genotype.layers.emplace_back();
    for (int i = 0; i < grid.active; ++i) {
      genes.push_back(static_cast<int>(random.below(static_cast<std::uint32_t>(grid.modules))));
    }
  }
  return genotype;
}

void mutate(Genotype& genotype, const PathGrid& grid, Generator& random) {
  constexpr int kReach = 2;
  const auto genes = static_cast<std::uint32_t>(grid.layers * grid.active);
  for (std::vector<int>& layer : genotype.layers) {
    for (int& gene : layer) {
      if (random.below(genes) != 0) continue;
      const int change = static_cast<int>(random.below(2 * kReach + 1)) - kReach;
      gene = ((gene + change) % grid.modules + grid.modules) % grid.modules;
    }
  }
}

Genotype join(const Genotype& a, const Genotype& b) {
  Genotype joined = a;
  for (std::size_t layer = 0; layer < b.layers.size(); ++layer) {
    const std::vector<int>& genes = b.layers[layer];
    joined.layers[layer].insert(joined.layers[layer].end(), genes.begin(), genes.end());
  }
  return joined;
}

int shared_modules(const Genotype& a, const Genotype& b) {
  std::vector<int> shared;
  int count = 0;
  for (int layer = 0; layer < static_cast<int>(a.layers.size()); ++layer) {
    shared.clear();
    std::ranges::set_intersection(a.modules(layer), b.modules(layer), std::back_inserter(shared));
    count += static_cast<int>(shared.size());
  }
  return count;
}

std::string to_string(const Genotype& genotype) {
  std::string text;
  for (int layer = 0; layer < static_cast<int>(genotype.layers.size()); ++layer) {
    if (layer > 0) text += " | ";
    text += comma_list(genotype.modules(layer), " ");
  }
  return text;
}

}  // namespace braid::models
