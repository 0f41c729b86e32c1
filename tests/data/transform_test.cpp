#include "data/transform.h"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

std::vector<float> apply(const Transform& transform, const Bytes& pixels, const CropFlip& crop) {
  std::vector<float> out(pixels.size(), -1.0f);
  transform.apply(pixels, crop, out);
  return out;
}

/// The same by definition: pad, crop, mirror, then normalise each pixel.
std::vector<float> expected(const TransformOptions& options, const Shape& shape, const Bytes& pixels,
                            const CropFlip& crop) {
  std::vector<float> out;
  for (std::int64_t y = 0; y < shape[0]; ++y) {
    for (std::int64_t x = 0; x < shape[1]; ++x) {
      const std::int64_t sy = y + crop.dy;
      const std::int64_t sx = (crop.flip ? shape[1] - 1 - x : x) + crop.dx;
      const bool inside = sy >= 0 && sy < shape[0] && sx >= 0 && sx < shape[1];
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        const int pixel = inside ? pixels[static_cast<std::size_t>((sy * shape[1] + sx) * shape[2] + c)] : 0;
        const auto channel = static_cast<std::size_t>(c);
        out.push_back((static_cast<float>(pixel) / 255.0f - options.mean[channel]) / options.std[channel]);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("without options pixels are mapped to 0 … 1") {
  Bytes pixels(256);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  const std::vector<float> out = apply(Transform({}, {16, 16, 1}), pixels, {});
  for (int i = 0; i < 256; ++i) CHECK(out[static_cast<std::size_t>(i)] == static_cast<float>(i) / 255.0f);
}

TEST_CASE("mean and deviation are those of the channel") {
  TransformOptions options;
  options.mean = {0.5f, 0.0f};
  options.std = {0.25f, 0.5f};
  const std::vector<float> out = apply(Transform(options, {1, 2, 2}), {0, 0, 255, 255}, {});
  CHECK(out == std::vector<float>{-2.0f, 0.0f, 2.0f, 2.0f});
}

TEST_CASE("padding is black before normalisation") {
  TransformOptions options;
  options.mean = {0.5f};
  const Transform transform(options, {2, 2, 1});
  const Bytes pixels = {0, 255, 255, 0};
  const float black = -0.5f, white = 0.5f;
  CHECK(apply(transform, pixels, {.dy = 0, .dx = 1}) == std::vector<float>{white, black, black, black});
  CHECK(apply(transform, pixels, {.dy = -1, .dx = 0}) == std::vector<float>{black, black, black, white});
  CHECK(apply(transform, pixels, {.dy = 0, .dx = 0, .flip = true}) == std::vector<float>{white, black, black, white});
}

TEST_CASE("every crop and flip equals its definition, also where the crop misses the image") {
  TransformOptions options;
  options.mean = {0.4f, 0.5f, 0.6f};
  options.std = {0.2f, 0.3f, 0.1f};
  const Shape shape{3, 4, 3};
  const Transform transform(options, shape);
  const Bytes pixels = random_bytes(36, 1);
  for (std::int64_t dy = -5; dy <= 5; ++dy) {
    for (std::int64_t dx = -5; dx <= 5; ++dx) {
      for (const bool flip : {false, true}) {
        const CropFlip crop{dy, dx, flip};
        CHECK(apply(transform, pixels, crop) == expected(options, shape, pixels, crop));
      }
    }
  }
}

TEST_CASE("crops and flips are uniform") {
  TransformOptions options;
  options.crop_padding = 2;
  options.flip = true;
  const Transform transform(options, {8, 8, 1});
  std::map<std::pair<std::int64_t, std::int64_t>, int> crops;
  int flips = 0;
  const int draws = 25000;
  for (int i = 0; i < draws; ++i) {
    Generator random(5, static_cast<std::uint64_t>(i));
    const CropFlip crop = transform.draw(random);
    ++crops[{crop.dy, crop.dx}];
    flips += crop.flip ? 1 : 0;
  }
  CHECK(crops.size() == 25);
  CHECK(crops.begin()->first == std::pair<std::int64_t, std::int64_t>(-2, -2));
  CHECK(crops.rbegin()->first == std::pair<std::int64_t, std::int64_t>(2, 2));
  for (const auto& [crop, count] : crops) {  // 1000 expected; 160 is more than five standard deviations (31)
    CHECK(count > 840);
    CHECK(count < 1160);
  }
  CHECK(flips > 12100);  // 12500 expected, standard deviation 79
  CHECK(flips < 12900);
}

TEST_CASE("without crop and flip the crop is the identity") {
  const Transform transform({}, {8, 8, 1});
  for (std::uint64_t i = 0; i < 100; ++i) {
    Generator random(1, i);
    const CropFlip crop = transform.draw(random);
    CHECK(crop.dy == 0);
    CHECK(crop.dx == 0);
    CHECK_FALSE(crop.flip);
  }
}

TEST_CASE("salt and pepper turn the asked share of the pixels black or white, half each, and leave the rest alone") {
  TransformOptions options;
  options.mean = {0.5f, 0.0f};
  options.std = {0.25f, 1.0f};
  options.salt_and_pepper = 0.3;
  const Shape shape{100, 100, 2};
  const Transform transform(options, shape);
  const std::vector<float> clean = apply(transform, Bytes(20000, 77), {});
  std::vector<float> noisy = clean;
  Generator random(3);
  transform.add_noise(random, noisy);
  const std::pair pepper(-2.0f, 0.0f), salt(2.0f, 1.0f), grey(clean[0], clean[1]);
  std::map<std::pair<float, float>, int> pixels;
  for (std::size_t i = 0; i < noisy.size(); i += 2) ++pixels[{noisy[i], noisy[i + 1]}];
  CHECK(pixels.size() == 3);  // all channels of a pixel change together
  for (const auto& colour : {pepper, salt}) {
    CHECK(pixels[colour] > 1320);  // 1500 expected, standard deviation 36
    CHECK(pixels[colour] < 1680);
  }
  CHECK(pixels[grey] == 10000 - pixels[pepper] - pixels[salt]);

  std::vector<float> again = clean;
  Generator same(3);
  transform.add_noise(same, again);
  CHECK(again == noisy);
}

TEST_CASE("transform options that do not fit are config errors") {
  const auto error = [](const TransformOptions& options) {
    return error_of<ConfigError>([&] { Transform(options, {8, 8, 3}); });
  };
  TransformOptions options;
  CHECK(error(options).empty());
  options.crop_padding = -1;
  CHECK(contains(error(options), "expected crop_padding >= 0, got -1"));
  options = {};
  options.mean = {0.5f};
  CHECK(contains(error(options), "expected mean for 3 channels (images are [8,8,3]), got 1 value"));
  options = {};
  options.std = {1, 1, 1, 1};
  CHECK(contains(error(options), "expected std for 3 channels"));
  options.std = {1, 0, 1};
  CHECK(contains(error(options), "expected std > 0, got 0"));
  options = {};
  options.salt_and_pepper = 1.5;
  CHECK(contains(error(options), "expected salt_and_pepper in [0, 1], got 1.5"));
}
