#include "data/loader/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace braid {
namespace {

/// Fisher–Yates.
void shuffle(std::vector<std::int64_t>& order, Generator& random) {
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  }
}

std::vector<std::int64_t> counting(std::int64_t size) {
  BRAID_CHECK(size >= 0, ConfigError, "[sampler] expected a size of at least 0, got ", size);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

/// Uniform in [0, 1), with 53 bits: a float's 24 leave out samples of millions.
double fine_uniform(Generator& random) {
  const std::uint64_t high = random.next();
  return static_cast<double>((high << 32 | random.next()) >> 11) * 0x1p-53;
}

}  // namespace

std::vector<std::int64_t> SequentialSampler::order(std::int64_t, std::uint64_t) const { return counting(size_); }

std::vector<std::int64_t> RandomSampler::order(std::int64_t epoch, std::uint64_t seed) const {
  std::vector<std::int64_t> order = counting(size_);
  Generator random = epoch_generator(seed, epoch);
  shuffle(order, random);
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t samples, bool replacement)
    : weights_(std::move(weights)), samples_(samples), replacement_(replacement) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    BRAID_CHECK(weights_[i] >= 0 && std::isfinite(weights_[i]), ConfigError,
                "[sampler] expected weights >= 0, that of sample ", i, " is ", weights_[i]);
  }
  const auto possible = std::ranges::count_if(weights_, [](double weight) { return weight > 0; });
  BRAID_CHECK(possible > 0, ConfigError, "[sampler] expected a weight above 0, got ", weights_.size(), " without");
  BRAID_CHECK(std::isfinite(std::accumulate(weights_.begin(), weights_.end(), 0.0)), ConfigError,
              "[sampler] the sum of the weights is infinite: expected smaller weights");
  BRAID_CHECK(samples >= 0, ConfigError, "[sampler] expected samples >= 0, got ", samples);
  BRAID_CHECK(replacement || samples <= possible, ConfigError, "[sampler] ", samples,
              " samples without replacement, but only ", possible, " weights are above 0");
}

std::vector<std::int64_t> WeightedRandomSampler::order(std::int64_t epoch, std::uint64_t seed) const {
  Generator random = epoch_generator(seed, epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples_));
  if (replacement_) {
    std::vector<double> sums(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
    // The first sum above the draw; rounding may leave none, and the first sum of all is the last sample with a weight.
    const auto end = std::ranges::lower_bound(sums, sums.back());
    for (std::int64_t& sample : order) {
      sample = std::upper_bound(sums.begin(), end, fine_uniform(random) * sums.back()) - sums.begin();
    }
    return order;
  }
  // The smallest of exponentially distributed numbers with these rates (Efraimidis and Spirakis, 2006).
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double draw = -std::log1p(-fine_uniform(random));
    if (weights_[i] > 0) keys.emplace_back(draw / weights_[i], static_cast<std::int64_t>(i));
  }
  std::ranges::partial_sort(keys, keys.begin() + samples_);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = keys[i].second;
  return order;
}

BalancedSampler::BalancedSampler(std::span<const int> labels, std::int64_t samples)
    : samples_(samples == 0 ? std::ssize(labels) : samples) {
  BRAID_CHECK(!labels.empty(), ConfigError, "[sampler] expected the label of every sample, got none");
  BRAID_CHECK(samples >= 0, ConfigError, "[sampler] expected samples >= 0, got ", samples);
  std::map<int, std::vector<std::int64_t>> classes;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i) classes[labels[static_cast<std::size_t>(i)]].push_back(i);
  for (auto& [label, members] : classes) classes_.push_back(std::move(members));
}

std::vector<std::int64_t> BalancedSampler::order(std::int64_t epoch, std::uint64_t seed) const {
  Generator random = epoch_generator(seed, epoch);
  const std::size_t first =
      random.below(static_cast<std::uint32_t>(classes_.size()));  // has one more if they are uneven
  std::vector<std::vector<std::int64_t>> left(classes_.size());
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < samples_; ++i) {
    const std::size_t label = (first + static_cast<std::size_t>(i)) % classes_.size();
    if (left[label].empty()) {
      left[label] = classes_[label];
      shuffle(left[label], random);
    }
    order.push_back(left[label].back());
    left[label].pop_back();
  }
  shuffle(order, random);
  return order;
}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> sampler, int rank, int world, bool drop_last)
    : sampler_(std::move(sampler)), rank_(rank), world_(world), drop_last_(drop_last) {
  BRAID_CHECK(sampler_ != nullptr, ConfigError, "[sampler] expected the sampler to share, got null");
  BRAID_CHECK(world >= 1 && rank >= 0 && rank < world, ConfigError, "[sampler] expected a rank of 0 to ", world - 1,
              " of ", world, ", got ", rank);
}

std::int64_t DistributedSampler::size() const { return (sampler_->size() + (drop_last_ ? 0 : world_ - 1)) / world_; }

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch, std::uint64_t seed) const {
  const std::vector<std::int64_t> all = sampler_->order(epoch, seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(all.empty() ? 0 : size()));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = all[(i * static_cast<std::size_t>(world_) + static_cast<std::size_t>(rank_)) % all.size()];
  }
  return order;
}

}  // namespace braid
