#include "data/transforms/mixing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Image i has the value i everywhere and the label i.
Batch counting_batch(std::int64_t count, std::int64_t side = 6) {
  Batch batch{Array(DType::f32, {count, side, side, 2}), Array(DType::i32, {count})};
  const auto pixels = batch.images.as<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>(i / (pixels.size() / static_cast<std::size_t>(count)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    batch.labels.as<std::int32_t>()[i] = static_cast<int>(i);
  return batch;
}

Batch mixed(const MixingOptions& options, std::uint64_t seed, std::int64_t count = 5, std::int64_t side = 6) {
  Batch batch = counting_batch(count, side);
  Generator random(seed);
  mix(options, random, static_cast<int>(count), batch);
  return batch;
}

float target(const Batch& batch, std::size_t image, std::size_t label) {
  return batch.targets.as<float>()[image * static_cast<std::size_t>(batch.size()) + label];
}

}  // namespace

TEST_CASE("images are mixed with their opposites in the ratio of the targets, by values or by area") {
  bool seen_cut = false, seen_up = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Batch batch = mixed({.mixup_alpha = 0.8, .cutmix_alpha = 1}, seed, 5, 40);
    const float share = target(batch, 0, 0);
    CHECK((share >= 0 && share <= 1));
    const auto pixels = batch.images.as<float>();
    const std::size_t size = 40 * 40 * 2;
    bool cut = true;  // by area: every pixel is of one of the two images
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t other = 4 - i;
      CHECK(target(batch, i, i) + (i == other ? 0 : target(batch, i, other)) == doctest::Approx(1));
      double sum = 0;
      for (std::size_t j = i * size; j < (i + 1) * size; ++j) {
        sum += static_cast<double>(pixels[j]);
        if (pixels[j] != static_cast<float>(i) && pixels[j] != static_cast<float>(other)) cut = false;
      }
      const double expected = static_cast<double>(share) * static_cast<double>(i) +
                              (1 - static_cast<double>(share)) * static_cast<double>(other);
      CHECK(sum / static_cast<double>(size) == doctest::Approx(expected).epsilon(1e-4));
      CHECK(batch.labels.as<std::int32_t>()[i] == static_cast<int>(share < 0.5f ? other : i));
    }
    (cut ? seen_cut : seen_up) = true;
  }
  CHECK((seen_cut && seen_up));
}

TEST_CASE("the ratio has the moments of a beta distribution") {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    const int draws = 4000;
    for (std::uint64_t seed = 0; seed < draws; ++seed) {
      const auto share = static_cast<double>(target(mixed({.mixup_alpha = alpha}, seed, 2, 1), 0, 0));
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1)), deviation = std::sqrt(variance / draws);
    CHECK(std::abs(sum / draws - 0.5) < 5 * deviation);
    CHECK(squares / draws == doctest::Approx(variance).epsilon(0.08));
  }
}

TEST_CASE("a batch that is not mixed has certain targets") {
  int untouched = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Batch batch = mixed({.mixup_alpha = 1, .probability = 0.25}, seed);
    if (target(batch, 0, 0) != 1) continue;
    ++untouched;
    CHECK(std::ranges::equal(batch.images.as<float>(), counting_batch(5).images.as<float>()));
  }
  CHECK((untouched > 255 && untouched < 345));  // 300 expected, standard deviation 9
}
