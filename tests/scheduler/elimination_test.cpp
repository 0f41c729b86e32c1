#include "scheduler/elimination.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "core/base/random.h"
#include "tests/effort.h"

using namespace braid;
using namespace braid::scheduler;
using namespace braid::testing;

namespace {

std::vector<double> random_costs(Generator& random, std::size_t count) {
  std::vector<double> costs(count);
  for (double& cost : costs) cost = random.below(1000);
  return costs;
}

LayerCosts random_layers(std::uint64_t seed) {
  Generator random(seed, 1);
  LayerCosts costs;
  const std::size_t layers = 1 + random.below(8);
  for (std::size_t i = 0; i < layers; ++i) costs.layers.push_back(random_costs(random, 1 + random.below(4)));
  for (std::uint32_t pairs = random.below(3 * static_cast<std::uint32_t>(layers)); layers > 1 && pairs > 0; --pairs) {
    const std::size_t a = random.below(static_cast<std::uint32_t>(layers));
    const std::size_t b = (a + 1 + random.below(static_cast<std::uint32_t>(layers) - 1)) % layers;
    costs.pairs.push_back({a, b, random_costs(random, costs.layers[a].size() * costs.layers[b].size())});
  }
  return costs;
}

/// The least sum over all combinations.
double least(const LayerCosts& costs, std::vector<std::size_t> chosen = {}) {
  if (chosen.size() == costs.layers.size()) return total(costs, chosen);
  double best = std::numeric_limits<double>::infinity();
  const std::size_t count = costs.layers[chosen.size()].size();
  chosen.push_back(0);
  for (std::size_t& last = chosen.back(); last < count; ++last) best = std::min(best, least(costs, chosen));
  return best;
}

}  // namespace

TEST_CASE("eliminating layers finds configurations with the least sum of costs") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(1000)); ++seed) {
    CAPTURE(seed);
    const LayerCosts costs = random_layers(seed);
    const std::vector<std::size_t> chosen = cheapest(costs);
    REQUIRE(chosen.size() == costs.layers.size());
    CHECK(total(costs, chosen) == least(costs));
  }
}

TEST_CASE("a layer that shares costs with too many others gets its own cheapest configuration") {
  Generator random(1, 1);
  LayerCosts costs;
  for (int i = 0; i < 40; ++i) costs.layers.push_back(random_costs(random, 4));
  for (std::size_t a = 0; a < 40; ++a) {
    for (std::size_t b = a + 1; b < 40; ++b) costs.pairs.push_back({a, b, random_costs(random, 16)});
  }
  const std::vector<std::size_t> chosen = cheapest(costs);
  std::vector<std::size_t> own;
  for (const std::vector<double>& layer : costs.layers) {
    own.push_back(static_cast<std::size_t>(std::ranges::min_element(layer) - layer.begin()));
  }
  CHECK(total(costs, chosen) < total(costs, own));
}
