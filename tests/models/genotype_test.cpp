#include "models/zoo/wired/genotype.h"

#include <doctest/doctest.h>

#include <array>

namespace braid::models {
namespace {

TEST_CASE("a random genotype is a table of L x N modules, all equally likely") {
  const PathGrid grid{.layers = 3, .modules = 10, .active = 4};
  Generator random(5);
  std::array<int, 10> counts{};
  for (int i = 0; i < 1000; ++i) {
    const Genotype genotype = random_genotype(grid, random);
    REQUIRE(genotype.layers.size() == 3);
    for (const auto& layer : genotype.layers) {
      REQUIRE(layer.size() == 4);
      for (const int module : layer) ++counts.at(static_cast<std::size_t>(module));
    }
  }
  for (const int count : counts) {  // 1200 expected, standard deviation 33
    CHECK(count > 1030);
    CHECK(count < 1370);
  }
}

TEST_CASE("a module that a layer names twice counts once, and the order does not matter") {
  const Genotype genotype{{{7, 2, 7}, {1, 1, 1}}};
  CHECK(genotype.modules(0) == std::vector<int>{2, 7});
  CHECK(genotype.modules(1) == std::vector<int>{1});
  CHECK(to_string(genotype) == "2 7 | 1");
}

TEST_CASE("genes mutate with probability 1/(L N), by -2 to 2 with equal probability, in a ring") {
  const PathGrid grid{.layers = 3, .modules = 10, .active = 3};
  const Genotype before{{{0, 5, 9}, {1, 5, 8}, {0, 0, 9}}};
  Generator random(7);
  std::array<int, 5> changes{};
  const int rounds = 20000;
  bool inside = true;
  for (int i = 0; i < rounds; ++i) {
    Genotype after = before;
    mutate(after, grid, random);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      for (std::size_t gene = 0; gene < 3; ++gene) {
        const int from = before.layers[layer][gene], to = after.layers[layer][gene];
        inside = inside && to >= 0 && to < 10;
        ++changes.at(static_cast<std::size_t>((to - from + 12) % 10));
      }
    }
  }
  CHECK(inside);
  // One gene per round is drawn on average, and a fifth of them each gets a change of -2, -1, 1 and 2; the others stay.
  for (const std::size_t change : {0u, 1u, 3u, 4u}) {  // 4000 expected, standard deviation 63
    CHECK(changes[change] > 3680);
    CHECK(changes[change] < 4320);
  }
}

TEST_CASE("mutation stays within a grid that is smaller than its range") {
  const PathGrid grid{.layers = 1, .modules = 1, .active = 1};
  Genotype genotype{{{0}}};
  Generator random(1);
  for (int i = 0; i < 100; ++i) mutate(genotype, grid, random);
  CHECK(genotype == Genotype{{{0}}});
}

TEST_CASE("paths are joined and compared as sets of modules") {
  const Genotype a{{{1, 2, 2}, {3, 4, 5}}}, b{{{2, 7, 7}, {5, 4, 0}}};
  CHECK(shared_modules(a, b) == 3);
  CHECK(shared_modules(a, a) == 5);
  CHECK(to_string(join(a, b)) == "1 2 7 | 0 3 4 5");
  CHECK(to_string(join(a, {})) == to_string(a));
}

}  // namespace
}  // namespace braid::models
