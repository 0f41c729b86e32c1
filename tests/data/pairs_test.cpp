#include "data/pairs.h"

#include <doctest/doctest.h>

#include <map>

#include "core/base/error.h"
#include "data/loader/loader.h"
#include "data/memory_dataset.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// Images of 2×3 pixels with two channels, image i full of i, of these labels.
std::shared_ptr<const ImageDataset> numbered(const std::vector<std::uint16_t>& labels) {
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < labels.size(); ++i) pixels.insert(pixels.end(), 12, static_cast<std::uint8_t>(i));
  return std::make_shared<MemoryDataset>("numbered", Shape{2, 3, 2}, 3, pixels, labels);
}

}  // namespace

TEST_CASE("a pair shows an image next to another one, alternately of its class and of another") {
  const std::vector<std::uint16_t> labels{0, 1, 2, 0, 1, 2, 0, 0, 1, 0, 2, 1};
  const Pairs pairs(numbered(labels), 3);
  CHECK(pairs.size() == 12);
  CHECK(pairs.image_shape() == Shape{2, 6, 2});
  CHECK(pairs.name() == "pairs of numbered");
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    const Image image = pairs.image(i);
    REQUIRE(image.shape == Shape{2, 6, 2});
    for (const std::size_t row : {0u, 12u}) {
      for (std::size_t at = 0; at < 6; ++at) {
        CHECK(image.pixels[row + at] == i);
        CHECK(image.pixels[row + 6 + at] == image.pixels[6]);
      }
    }
    CHECK(image.pixels[6] != i);
    const bool same = labels[static_cast<std::size_t>(i)] == labels[image.pixels[6]];
    CHECK(same == (i % 2 == 0));
    CHECK(pairs.label(i) == (same ? 1 : 0));
  }
}

TEST_CASE("partners are drawn evenly, and by the seed") {
  const auto dataset = numbered(std::vector<std::uint16_t>{0, 1, 0, 1});
  std::map<std::pair<std::int64_t, int>, int> counts;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Pairs pairs(dataset, seed);
    for (std::int64_t i = 0; i < 4; ++i) ++counts[{i, pairs.image(i).pixels[6]}];
  }
  // Images 0 and 2 have one other of their class; 1 and 3 have two of the other class.
  CHECK(counts.size() == 6);
  for (const auto& [pair, count] : counts) CHECK(std::abs(count - (pair.first % 2 == 0 ? 400 : 200)) < 50);
}

TEST_CASE("pairs need two classes, and images of one size") {
  CHECK(error_of<DataError>([] {
          Pairs(numbered({1, 1}));
        }) == "[pairs] expected images of at least two classes, numbered has those of class 1 only");
  struct Ragged final : ImageDataset {
    std::int64_t size() const override { return 2; }
    Shape image_shape() const override { return {2, 2, 1}; }
    int classes() const override { return 2; }
    std::string name() const override { return "ragged"; }
    Image image(std::int64_t i) const override { return {.shape = {2, 2 + i, 1}, .pixels = std::span(pixels, 4)}; }
    int label(std::int64_t i) const override { return static_cast<int>(i); }
    std::uint8_t pixels[4] = {};
  };
  const Pairs ragged(std::make_shared<Ragged>());
  CHECK(error_of<DataError>([&] { ragged.image(1); }) ==
        "[pairs] ragged: image 1 has shape [2,3,1], expected [2,2,1]: pairs are made of images of one size");
}
