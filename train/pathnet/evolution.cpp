#include "train/pathnet/evolution.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace braid {

using models::Genotype;

Evolution::Evolution(const EvolutionOptions& options) : options_(options), random_(options.seed) {
  const models::PathGrid& grid = options.grid;
  BRAID_CHECK(grid.layers >= 1 && grid.modules >= 1 && grid.active >= 1, Error,
              "[evolution] expected a grid of at least 1 layer, 1 module and 1 active module");
  BRAID_CHECK(options.candidates >= 2 && options.candidates % 2 == 0, Error,
              "[evolution] expected an even number of candidates, at least 2, got ", options.candidates);
  BRAID_CHECK(options.population >= options.candidates, Error, "[evolution] expected a population of at least ",
              options.candidates, ", the number of candidates, got ", options.population);
  for (int i = 0; i < options.population; ++i) population_.push_back(random_genotype(grid, random_));
}

void Evolution::restore(State state) {
  population_ = std::move(state.population);
  last_ = std::move(state.last);
  best_ = std::move(state.best);
  random_.seek(state.drawn);
}

std::vector<int> Evolution::draw_candidates() {
  std::vector<int> members(population_.size());
  std::iota(members.begin(), members.end(), 0);
  // The first steps of a Fisher–Yates shuffle.
  for (int i = 0; i < options_.candidates; ++i) {
    const auto left = static_cast<std::uint32_t>(options_.population - i);
    std::swap(members[static_cast<std::size_t>(i)], members[static_cast<std::size_t>(i) + random_.below(left)]);
  }
  members.resize(static_cast<std::size_t>(options_.candidates));
  return members;
}

void Evolution::step(const Judge& judge) {
  const std::vector<int> members = draw_candidates();
  std::vector<Genotype> candidates;
  for (const int member : members) candidates.push_back(population_[static_cast<std::size_t>(member)]);
  const std::vector<double> fitness = judge(candidates);
  if (fitness.empty()) return;
  BRAID_CHECK(fitness.size() == candidates.size(), Error, "[evolution] expected the fitness of ", candidates.size(),
              " candidates, got ", fitness.size());
  for (std::size_t i = 0; i < candidates.size(); i += 2) {
    const bool second_wins = fitness[i + 1] > fitness[i];
    const std::size_t winner = i + (second_wins ? 1 : 0), loser = i + (second_wins ? 0 : 1);
    Genotype& child = population_[static_cast<std::size_t>(members[loser])];
    child = candidates[winner];
    mutate(child, options_.grid, random_);
  }
  const auto fittest = std::ranges::max_element(fitness);
  last_ = {.genotype = candidates[static_cast<std::size_t>(fittest - fitness.begin())],
           .fitness = *fittest,
           .generation = last_.generation + 1};
  if (best_.generation == 0 || last_.fitness >= best_.fitness) best_ = last_;
}

}  // namespace braid
