#include "data/synthetic.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/base/error.h"
#include "data/memory_dataset.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

Bytes all_pixels(const ImageDataset& dataset) {
  Bytes pixels;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto image = dataset.image(i).pixels;
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
  return pixels;
}

std::vector<double> mean_image(const ImageDataset& dataset, int label) {
  std::vector<double> sum(static_cast<std::size_t>(dataset.image_shape().size()));
  double count = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    if (dataset.label(i) != label) continue;
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += dataset.image(i).pixels[j];
    ++count;
  }
  for (double& value : sum) value /= count;
  return sum;
}

}  // namespace

TEST_CASE("a synthetic dataset has the size, shape and classes asked for") {
  const auto dataset = synthetic({.size = 25, .shape = {9, 6, 2}, .classes = 4});
  CHECK(dataset->size() == 25);
  CHECK(dataset->image_shape() == Shape{9, 6, 2});
  CHECK(dataset->classes() == 4);
  CHECK(dataset->image(24).pixels.size() == 108);
  for (std::int64_t i = 0; i < 25; ++i) CHECK(dataset->label(i) == i % 4);
}

TEST_CASE("synthetic pixels depend on the seed and the split and on nothing else") {
  const auto pixels = [](std::uint64_t seed, Split split) {
    return all_pixels(*synthetic({.size = 20, .shape = {8, 8, 1}, .classes = 3, .seed = seed, .split = split}));
  };
  CHECK(pixels(1, Split::train) == pixels(1, Split::train));
  CHECK(pixels(1, Split::train) != pixels(2, Split::train));
  CHECK(pixels(1, Split::train) != pixels(1, Split::val));
}

TEST_CASE("the nearest class mean of the training split classifies the test split") {
  const SyntheticOptions train{.size = 200, .shape = {12, 12, 1}, .classes = 5};
  SyntheticOptions test = train;
  test.split = Split::val;
  const auto learned = synthetic(train);
  const auto unseen = synthetic(test);
  std::vector<std::vector<double>> means;
  for (int k = 0; k < 5; ++k) means.push_back(mean_image(*learned, k));
  for (std::int64_t i = 0; i < unseen->size(); ++i) {
    int best = -1;
    double least = 1e30;
    for (int k = 0; k < 5; ++k) {
      double distance = 0;
      for (std::size_t j = 0; j < 144; ++j) {
        const double difference = unseen->image(i).pixels[j] - means[static_cast<std::size_t>(k)][j];
        distance += difference * difference;
      }
      if (distance < least) {
        least = distance;
        best = k;
      }
    }
    CHECK(best == unseen->label(i));
  }
}

TEST_CASE("synthetic options out of range are config errors") {
  CHECK_THROWS_AS(synthetic({.size = 0}), ConfigError);
  CHECK_THROWS_AS(synthetic({.shape = {8, 8}}), ConfigError);
  CHECK_THROWS_AS(synthetic({.shape = {8, 0, 3}}), ConfigError);
  CHECK_THROWS_AS(synthetic({.classes = 0}), ConfigError);
  CHECK_THROWS_AS(synthetic({.classes = 10001}), ConfigError);
}

TEST_CASE("a dataset in memory checks its parts against each other") {
  CHECK_NOTHROW(MemoryDataset("ok", {1, 2, 1}, 2, {1, 2, 3, 4}, {0, 1}));
  CHECK_THROWS_AS(MemoryDataset("rank", {2, 1}, 2, {1, 2, 3, 4}, {0, 1}), DataError);
  CHECK_THROWS_AS(MemoryDataset("pixels", {1, 2, 1}, 2, {1, 2, 3}, {0, 1}), DataError);
  CHECK_THROWS_AS(MemoryDataset("labels", {1, 2, 1}, 2, {1, 2, 3, 4}, {0, 2}), DataError);
}

TEST_CASE("a sample that does not exist is an error") {
  const MemoryDataset dataset("two", {1, 1, 1}, 2, {7, 8}, {0, 1});
  CHECK_THROWS_AS(dataset.image(2), DataError);
  CHECK_THROWS_AS(dataset.image(-1), DataError);
  CHECK_THROWS_AS(dataset.label(2), DataError);
}
