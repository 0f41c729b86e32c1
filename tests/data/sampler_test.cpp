#include "data/loader/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/error.h"
#include "data/synthetic.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

using Order = std::vector<std::int64_t>;

Order first_numbers(std::int64_t count) { return SequentialSampler(count).order(0, 0); }

Order sorted(Order order) {
  std::ranges::sort(order);
  return order;
}

/// How often each of the first `size` numbers comes.
std::vector<double> counts(const Order& order, std::size_t size) {
  std::vector<double> found(size);
  for (const std::int64_t sample : order) ++found.at(static_cast<std::size_t>(sample));
  return found;
}

}  // namespace

TEST_CASE("a sequential sampler counts, a random one permutes, anew with every epoch and seed") {
  CHECK(SequentialSampler(4).order(7, 3) == Order{0, 1, 2, 3});
  const RandomSampler random(50);
  CHECK(random.order(0, 1) == random.order(0, 1));
  std::set<Order> different;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (const std::int64_t epoch : {0, 1, 2}) {
      different.insert(random.order(epoch, seed));
      CHECK(sorted(random.order(epoch, seed)) == first_numbers(50));
    }
  }
  CHECK(different.size() == 6);
  CHECK(RandomSampler(0).order(0, 0).empty());
}

TEST_CASE("samples are drawn in proportion to their weights, and never with a weight of 0") {
  const std::vector<double> weights{0, 1, 2, 0, 5, 0};
  constexpr std::int64_t kDraws = 80000;
  const WeightedRandomSampler sampler(weights, kDraws);
  CHECK(sampler.size() == kDraws);
  CHECK(sampler.order(0, 1) == sampler.order(0, 1));
  CHECK(sampler.order(0, 1) != sampler.order(1, 1));
  const std::vector<double> found = counts(sampler.order(3, 1), weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / 8;
    // Five standard deviations of a binomial distribution.
    CHECK(std::abs(found[i] - kDraws * share) <= 5 * std::sqrt(kDraws * share * (1 - share)));
  }
}

TEST_CASE("without replacement no sample comes twice, and heavy ones come first more often") {
  const std::vector<double> weights{1, 0, 3, 1, 0, 1};
  const WeightedRandomSampler all(weights, 4, /*replacement=*/false), one(weights, 1, /*replacement=*/false);
  std::vector<double> first(weights.size());
  constexpr int kEpochs = 6000;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order order = all.order(epoch, 9);
    CHECK(sorted(order) == Order{0, 2, 3, 5});
    CHECK(one.order(epoch, 9)[0] == order[0]);
    ++first[static_cast<std::size_t>(order[0])];
  }
  CHECK(std::abs(first[2] - kEpochs / 2) <= 5 * std::sqrt(kEpochs / 4.0));
}

TEST_CASE(
    "a balanced sampler draws all classes equally often and uses up a class before it repeats one of its samples") {
  std::vector<int> labels(90, 7);  // 90 of class 7, 8 of class 2, 2 of class 5
  labels.insert(labels.end(), 8, 2);
  labels.insert(labels.end(), 2, 5);
  const BalancedSampler sampler(labels);
  CHECK(sampler.size() == 100);
  std::set<int> favoured;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Order order = sampler.order(epoch, 4);
    CHECK(order == sampler.order(epoch, 4));
    CHECK(order != sampler.order(epoch + 1, 4));
    std::map<int, double> of_class;
    for (const std::int64_t sample : order) ++of_class[labels[static_cast<std::size_t>(sample)]];
    CHECK(of_class.size() == 3);
    for (const auto& [label, count] : of_class) {
      CHECK((count == 33 || count == 34));
      if (count == 34) favoured.insert(label);
    }
    const std::vector<double> found = counts(order, labels.size());
    for (const auto& [begin, end] : {std::pair{0, 90}, {90, 98}, {98, 100}}) {
      const auto [least, most] = std::minmax_element(found.begin() + begin, found.begin() + end);
      CHECK(*most - *least <= 1);
    }
  }
  CHECK(favoured.size() == 3);
  CHECK(BalancedSampler(labels, 12).order(0, 0).size() == 12);
  CHECK(BalancedSampler(synthetic({.size = 30})->labels()).size() == 30);
}

TEST_CASE("shares of processes are disjoint, of one size, and cover everything") {
  const auto whole = std::make_shared<RandomSampler>(24);
  for (const int world : {1, 2, 3, 4, 8}) {
    Order together;
    for (int rank = 0; rank < world; ++rank) {
      const DistributedSampler share(whole, rank, world);
      CHECK(share.size() == 24 / world);
      const Order order = share.order(2, 5);
      CHECK(std::ssize(order) == share.size());
      together.insert(together.end(), order.begin(), order.end());
    }
    CHECK(sorted(together) == first_numbers(24));
  }
}

TEST_CASE("what does not divide among processes comes again, or is left out with drop_last") {
  const auto whole = std::make_shared<SequentialSampler>(10);
  CHECK(DistributedSampler(whole, 0, 4).order(0, 0) == Order{0, 4, 8});
  CHECK(DistributedSampler(whole, 2, 4).order(0, 0) == Order{2, 6, 0});
  CHECK(DistributedSampler(whole, 3, 4).order(0, 0) == Order{3, 7, 1});
  CHECK(DistributedSampler(whole, 1, 4, /*drop_last=*/true).order(0, 0) == Order{1, 5});
  const auto few = std::make_shared<SequentialSampler>(2);
  CHECK(DistributedSampler(few, 4, 5).order(0, 0) == Order{0});
  CHECK(DistributedSampler(few, 4, 5, /*drop_last=*/true).order(0, 0).empty());
  const DistributedSampler nothing(std::make_shared<SequentialSampler>(0), 1, 4);
  CHECK(nothing.size() == 0);
  CHECK(nothing.order(0, 0).empty());
}

TEST_CASE("samplers say what is wrong with their arguments") {
  const auto error = [](const auto& make) { return error_of<ConfigError>(make); };
  CHECK(contains(error([] { WeightedRandomSampler({1, -2}, 1); }), "that of sample 1 is -2"));
  CHECK(contains(error([] { WeightedRandomSampler({NAN}, 1); }), "that of sample 0 is nan"));
  CHECK(contains(error([] { WeightedRandomSampler({0, 0}, 1); }), "expected a weight above 0, got 2 without"));
  CHECK(contains(error([] { WeightedRandomSampler({}, 0); }), "expected a weight above 0"));
  CHECK(contains(error([] { WeightedRandomSampler({1}, -1); }), "expected samples >= 0, got -1"));
  CHECK(contains(error([] {
                   WeightedRandomSampler({1, 0, 1}, 3, false);
                 }),
                 "3 samples without replacement, but only 2"));
  CHECK(contains(error([] { RandomSampler(-1).order(0, 0); }), "expected a size of at least 0, got -1"));
  CHECK(contains(error([] { BalancedSampler({}); }), "expected the label of every sample"));
  CHECK(contains(error([] { BalancedSampler(std::vector{1}, -1); }), "expected samples >= 0, got -1"));
  CHECK(contains(error([] { DistributedSampler(nullptr, 0, 1); }), "got null"));
  const auto sampler = std::make_shared<SequentialSampler>(3);
  CHECK(contains(error([&] { DistributedSampler(sampler, 2, 2); }), "expected a rank of 0 to 1 of 2, got 2"));
  CHECK(contains(error([&] { DistributedSampler(sampler, 0, 0); }), "of 0, got 0"));
}
