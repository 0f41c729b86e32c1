#include "scheduler/elimination.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/base/random.h"
#include "tests/effort.h"

using namespace braid;
using namespace braid::scheduler;
using namespace braid::testing;

namespace {

std::vector<LayerCost> random_costs(Generator& random, std::size_t count) {
  std::vector<LayerCost> costs(count);
  for (LayerCost& cost : costs) cost = {.time = 1.0 * random.below(1000), .bytes = 1.0 * random.below(100)};
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

/// The costs of all combinations, the fastest first.
std::vector<LayerCost> all_totals(const LayerCosts& costs) {
  std::vector<LayerCost> totals;
  std::vector<std::size_t> chosen(costs.layers.size());
  const auto choose = [&](const auto& self, std::size_t layer) -> void {
    if (layer == chosen.size()) return totals.push_back(total(costs, chosen)), void();
    for (chosen[layer] = 0; chosen[layer] < costs.layers[layer].size(); ++chosen[layer]) self(self, layer + 1);
  };
  choose(choose, 0);
  std::ranges::sort(totals, {}, &LayerCost::time);
  return totals;
}

std::vector<double> times(std::span<const LayerCost> costs) {
  std::vector<double> times;
  for (const LayerCost& cost : costs) times.push_back(cost.time);
  return times;
}

}  // namespace

TEST_CASE("eliminating layers finds the configurations with the least sums of times, within a limit of bytes") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(1000)); ++seed) {
    CAPTURE(seed);
    const LayerCosts costs = random_layers(seed);
    std::vector<LayerCost> all = all_totals(costs);
    const auto [fewest, most] = std::ranges::minmax(all, {}, &LayerCost::bytes);
    for (const double share : {1.0, 0.5, 0.2, 0.0, -1.0}) {
      const double limit = share == 1 ? kNoLimit : fewest.bytes + share * (most.bytes - fewest.bytes);
      std::erase_if(all, [&](const LayerCost& each) { return each.bytes > limit; });
      for (const std::size_t count : {1, 2, 5}) {
        const std::vector<std::vector<std::size_t>> found = cheapest(costs, count, limit);
        CHECK(std::set(found.begin(), found.end()).size() == found.size());
        std::vector<LayerCost> its;
        for (const std::vector<std::size_t>& chosen : found) its.push_back(total(costs, chosen));
        if (share < 0 && most.bytes > fewest.bytes) {  // nothing fits
          REQUIRE(its.size() == 1);
          CHECK(its.front().bytes == fewest.bytes);
          continue;
        }
        for (const LayerCost& each : its) CHECK(each.bytes <= limit);
        CHECK(times(its) == times(std::span(all).first(std::min(count, all.size()))));
      }
    }
  }
}

TEST_CASE("a layer that shares costs with too many others gets its own cheapest configuration") {
  Generator random(1, 1);
  LayerCosts costs;
  for (int i = 0; i < 40; ++i) costs.layers.push_back(random_costs(random, 4));
  for (std::size_t a = 0; a < 40; ++a) {
    for (std::size_t b = a + 1; b < 40; ++b) costs.pairs.push_back({a, b, random_costs(random, 16)});
  }
  std::vector<std::size_t> own;
  for (const std::vector<LayerCost>& layer : costs.layers) {
    own.push_back(static_cast<std::size_t>(std::ranges::min_element(layer, {}, &LayerCost::time) - layer.begin()));
  }
  const std::vector<std::vector<std::size_t>> found = cheapest(costs, 3);
  CHECK(std::set(found.begin(), found.end()).size() == 3);
  CHECK(total(costs, found.front()).time < total(costs, own).time);
}
