#pragma once
// Samplers: which samples an epoch has, in which order. The order depends on (seed, epoch) only.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/random.h"

namespace braid {

/// Stands for no sample.
inline constexpr std::int64_t kNoSample = 0xffffffff;

/// The random numbers of a sample in an epoch, or of the order of all.
inline Generator epoch_generator(std::uint64_t seed, std::int64_t epoch, std::int64_t sample = kNoSample) {
  return Generator(seed, static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(sample));
}

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Samples in an epoch, the same in all of them.
  virtual std::int64_t size() const = 0;
  /// Indices of samples, size() of them.
  virtual std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const = 0;
};

/// 0, 1, …, size - 1.
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const override;

 private:
  std::int64_t size_;
};

/// All samples, shuffled.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const override;

 private:
  std::int64_t size_;
};

/// Draws samples with probabilities in proportion to their weights; a weight of 0 means never.
class WeightedRandomSampler final : public Sampler {
 public:
  /// Without replacement, no sample is drawn twice in an epoch. Throws ConfigError if a weight is negative or not
  /// finite, if all are 0, or if `samples` is negative or, without replacement, more than there are positive weights.
  WeightedRandomSampler(std::vector<double> weights, std::int64_t samples, bool replacement = true);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const override;

 private:
  std::vector<double> weights_;
  std::int64_t samples_;
  bool replacement_;
};

/// All classes equally often, shuffled: their numbers differ by at most one, and no sample of a class repeats before
/// all others of the class have been drawn.
class BalancedSampler final : public Sampler {
 public:
  /// The class of every sample, as ImageDataset::labels(); 0 samples: as many as there are labels. Throws ConfigError
  /// if there are no labels or `samples` is negative.
  explicit BalancedSampler(std::span<const int> labels, std::int64_t samples = 0);
  std::int64_t size() const override { return samples_; }
  std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const override;

 private:
  std::vector<std::vector<std::int64_t>> classes_;  ///< the samples of each
  std::int64_t samples_;
};

/// The share of one process of several that train together with the same seed: every world-th sample of another
/// sampler's order, beginning with number `rank`. All shares have the same size.
class DistributedSampler final : public Sampler {
 public:
  /// If `world` does not divide the samples, the last ones are left out with drop_last, else the first ones are
  /// repeated. Throws ConfigError unless 0 <= rank < world, or if there is no sampler.
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int rank, int world, bool drop_last = false);
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::int64_t epoch, std::uint64_t seed) const override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  int rank_, world_;
  bool drop_last_;
};

}  // namespace braid
