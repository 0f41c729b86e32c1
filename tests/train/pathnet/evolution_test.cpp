#include "train/pathnet/evolution.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace braid {
namespace {

using models::Genotype;

using Population = std::vector<Genotype>;
using Candidates = std::span<const Genotype>;

EvolutionOptions small(int candidates = 2) {
  return {.grid = {.layers = 2, .modules = 6, .active = 2}, .population = 8, .candidates = candidates, .seed = 3};
}

Population population_of(const Evolution& evolution) {
  return {evolution.population().begin(), evolution.population().end()};
}

/// Places where two populations differ.
std::vector<std::size_t> differences(const Population& a, const Population& b) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) places.push_back(i);
  }
  return places;
}

/// Whether mutation can make `child` of `parent`: every gene is at most 2 away, in a ring of 6.
bool may_descend(const Genotype& child, const Genotype& parent) {
  for (std::size_t layer = 0; layer < child.layers.size(); ++layer) {
    for (std::size_t i = 0; i < child.layers[layer].size(); ++i) {
      const int distance = (child.layers[layer][i] - parent.layers[layer][i] + 6) % 6;
      if (distance == 3) return false;
    }
  }
  return true;
}

TEST_CASE("a mutated copy of the winner overwrites the loser of a tournament; no other genotype changes") {
  for (const bool first_wins : {true, false}) {
    Evolution evolution(small());
    for (int generation = 1; generation <= 50; ++generation) {
      const Population before = population_of(evolution);
      Population candidates;
      evolution.step([&](Candidates pair) {
        candidates.assign(pair.begin(), pair.end());
        return std::vector<double>{first_wins ? 0.5 : 0.25, first_wins ? 0.25 : 0.5};
      });
      REQUIRE(candidates.size() == 2);
      const Genotype& winner = candidates[first_wins ? 0 : 1];
      CHECK(evolution.last().genotype == winner);
      CHECK(evolution.last().fitness == 0.5);
      CHECK(evolution.last().generation == generation);
      const std::vector<std::size_t> changed = differences(before, population_of(evolution));
      REQUIRE(changed.size() <= 1);  // none if the copy equals what it overwrites
      if (changed.empty()) continue;
      CHECK(before[changed[0]] == candidates[first_wins ? 1 : 0]);
      CHECK(may_descend(evolution.population()[changed[0]], winner));
    }
  }
}

TEST_CASE("a tie goes to the first of the two") {
  Evolution evolution(small());
  Genotype first;
  evolution.step([&](Candidates pair) {
    first = pair[0];
    return std::vector<double>{0.5, 0.5};
  });
  CHECK(evolution.last().genotype == first);
  CHECK(std::ranges::count(evolution.population(), first) >= 1);
}

TEST_CASE("four candidates are two independent tournaments of distinct individuals") {
  EvolutionOptions options = small(4);
  options.population = 4;  // so that every individual takes part, and candidates can be distinguished
  Evolution evolution(options);
  const Population before = population_of(evolution);
  REQUIRE(std::set<std::string>{to_string(before[0]), to_string(before[1]), to_string(before[2]), to_string(before[3])}
              .size() == 4);
  Population candidates;
  evolution.step([&](Candidates four) {
    candidates.assign(four.begin(), four.end());
    return std::vector<double>{0.9, 0.8, 0.1, 0.2};
  });
  for (const Genotype& member : before) CHECK(std::ranges::count(candidates, member) == 1);
  // The winners stay, the second pair's too, although both of the first pair were fitter.
  CHECK(std::ranges::count(evolution.population(), candidates[0]) >= 1);
  CHECK(std::ranges::count(evolution.population(), candidates[3]) >= 1);
  for (const std::size_t i : {0u, 1u, 2u, 3u}) {
    const Genotype& now = evolution.population()[i];
    if (before[i] == candidates[1]) CHECK(may_descend(now, candidates[0]));
    if (before[i] == candidates[2]) CHECK(may_descend(now, candidates[3]));
  }
  CHECK(evolution.last().genotype == candidates[0]);
}

TEST_CASE("evolution depends on its seed only") {
  const auto run = [](std::uint64_t seed) {
    EvolutionOptions options = small();
    options.seed = seed;
    Evolution evolution(options);
    for (int i = 0; i < 30; ++i) {
      evolution.step([](Candidates pair) {
        return std::vector<double>{static_cast<double>(pair[0].layers[0][0]),
                                   static_cast<double>(pair[1].layers[0][0])};
      });
    }
    return population_of(evolution);
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("selection finds the path that a fitness asks for, and remembers the best") {
  Evolution evolution({.population = 16, .seed = 4});
  const auto fitness = [](const Genotype& genotype) {  // in [0,1]: how many of the 9 genes are 4
    double hits = 0;
    for (const auto& layer : genotype.layers) hits += static_cast<double>(std::ranges::count(layer, 4));
    return hits / 9;
  };
  for (int i = 0; i < 3000; ++i) {
    evolution.step([&](Candidates pair) { return std::vector<double>{fitness(pair[0]), fitness(pair[1])}; });
  }
  CHECK(evolution.best().fitness == 1);
  CHECK(fitness(evolution.best().genotype) == 1);
  CHECK(evolution.last().generation == 3000);
}

TEST_CASE("a stopped or failed generation does not change the population") {
  Evolution evolution(small());
  const Population before = population_of(evolution);
  evolution.step([](Candidates) { return std::vector<double>{}; });
  CHECK_THROWS_WITH_AS(evolution.step([](Candidates) -> std::vector<double> { throw Error("no"); }), "no", Error);
  CHECK_THROWS_WITH_AS(evolution.step([](Candidates) { return std::vector<double>{1}; }),
                       "[evolution] expected the fitness of 2 candidates, got 1", Error);
  CHECK(population_of(evolution) == before);
  CHECK(evolution.last().generation == 0);
}

TEST_CASE("evolution refuses options out of range") {
  CHECK_THROWS_WITH_AS(Evolution({.candidates = 3}), doctest::Contains("an even number of candidates"), Error);
  CHECK_THROWS_WITH_AS(Evolution({.population = 2, .candidates = 4}), doctest::Contains("a population of at least 4"),
                       Error);
  CHECK_THROWS_AS(Evolution({.grid = {.active = 0}}), Error);
}

}  // namespace
}  // namespace braid
