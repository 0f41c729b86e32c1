#include "data/transforms/transform.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
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

TEST_CASE("every crop and flip equals its definition, also where the crop misses the image") {
  const TransformOptions options{.mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.1f}};
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
  const Transform transform({.crop_padding = 2, .flip = true}, {8, 8, 1});
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
  const Transform transform({.salt_and_pepper = 0.3, .mean = {0.5f, 0.0f}, .std = {0.25f, 1.0f}}, {100, 100, 2});
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

TEST_CASE("an image of another size is scaled, and its centre shown") {
  const Transform transform({.crop_pct = 0.5}, {2, 2, 1});
  // The result is the centre of 4×8, to which 8×16 is scaled. Its middle columns are white.
  Bytes pixels;
  for (int i = 0; i < 8 * 16; ++i) pixels.push_back(i % 16 >= 4 && i % 16 < 12 ? 255 : 0);
  Bytes shown(4);
  transform.show_centre({{8, 16, 1}, pixels}, shown);
  CHECK(shown == Bytes(4, 255));
  std::vector<float> out(4);
  Generator random(1);
  transform({{8, 16, 1}, pixels}, random, out);
  CHECK(out == std::vector<float>(4, 1.0f));
  transform.show_centre({{16, 8, 1}, pixels}, shown);  // tall: rows alternate
  CHECK(shown[0] == shown[1]);
}

TEST_CASE("random resized crops have the areas and ratios that were asked for, anywhere in the image") {
  const Transform transform({.random_resized_crop = true}, {8, 8, 3});
  double smallest = 1, largest = 0, flattest = 9, steepest = 0;
  std::int64_t right_most = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Generator random(3, i);
    const Window part = transform.draw_part(random, 300, 400);
    CHECK((part.top >= 0 && part.left >= 0 && part.top + part.height <= 300 && part.left + part.width <= 400));
    const double area = static_cast<double>(part.height * part.width) / 120000;
    const double ratio = static_cast<double>(part.width) / static_cast<double>(part.height);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    flattest = std::min(flattest, ratio);
    steepest = std::max(steepest, ratio);
    right_most = std::max(right_most, part.left + part.width);
  }
  CHECK((smallest > 0.075 && smallest < 0.1));
  CHECK(largest > 0.9);
  CHECK((flattest > 0.74 && flattest < 0.76));
  CHECK((steepest > 1.32 && steepest < 1.35));
  CHECK(right_most == 400);
  Generator random(1);
  const Window part = transform.draw_part(random, 1, 100);  // no part of it has such a ratio
  CHECK((part.height == 1 && part.width == 1));
}

TEST_CASE("erasing turns one rectangle to the mean, as often as asked") {
  const Transform transform({.random_erasing = 0.5}, {20, 30, 3});
  int erased = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Generator random(4, i);
    std::vector<float> image(1800, 1.0f);
    transform.erase(random, image);
    const auto zeros = std::count(image.begin(), image.end(), 0.0f);
    CHECK(zeros % 3 == 0);
    CHECK((zeros == 0 || (zeros >= 3 * 8 && zeros <= 3 * 220)));  // 2 to 33 % of 600, give or take the rounding
    erased += zeros > 0 ? 1 : 0;
  }
  CHECK(erased > 890);  // 1000 expected, standard deviation 22
  CHECK(erased < 1110);
}

TEST_CASE("transform options that do not fit are config errors") {
  const auto error = [](const TransformOptions& options) {
    return error_of<ConfigError>([&] { Transform(options, {8, 8, 3}); });
  };
  CHECK(error({}).empty());
  CHECK(contains(error({.crop_padding = -1}), "expected crop_padding >= 0, got -1"));
  CHECK(contains(error({.mean = {0.5f}}), "expected mean for 3 channels (images are [8,8,3]), got 1 value"));
  CHECK(contains(error({.std = {1, 1, 1, 1}}), "expected std for 3 channels"));
  CHECK(contains(error({.std = {1, 0, 1}}), "expected std > 0, got 0"));
  CHECK(contains(error({.salt_and_pepper = 1.5}), "expected salt_and_pepper in [0, 1], got 1.5"));
  CHECK(contains(error({.scale = {0.5, 0.2}}), "expected scale as two ascending numbers"));
  CHECK(contains(error({.scale = {0.5, 1.2}}), "expected scale in [0, 1], got 1.2"));
  CHECK(contains(error({.ratio = {0, 2}}), "expected ratio as two ascending numbers"));
  CHECK(contains(error({.crop_pct = 0}), "expected crop_pct > 0"));
  CHECK(contains(error({.random_erasing = 2}), "expected random_erasing in [0, 1], got 2"));
  CHECK(contains(error({.color_jitter = {.contrast = -1}}), "expected color_jitter >= 0"));
  CHECK(contains(error({.color_jitter = {.hue = 0.6}}), "expected a hue of color_jitter <= 0.5"));
}
