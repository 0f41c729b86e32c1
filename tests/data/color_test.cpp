#include "data/transforms/color.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

Bytes jittered(const ColorJitter& jitter, std::uint64_t seed, Bytes pixels, int channels = 3) {
  Generator random(seed);
  jitter_colors(jitter, random, channels, pixels);
  return pixels;
}

int range(const Bytes& pixel) {
  return *std::max_element(pixel.begin(), pixel.end()) - *std::min_element(pixel.begin(), pixel.end());
}

}  // namespace

TEST_CASE("brightness scales pixels, contrast moves them from the mean, and both reach their limits") {
  int darkest = 255, brightest = 0, flattest = 255, steepest = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Bytes bright = jittered({.brightness = 0.5}, seed, {100, 100, 100, 0, 0, 0});
    CHECK(bright[3] == 0);
    darkest = std::min<int>(darkest, bright[0]);
    brightest = std::max<int>(brightest, bright[0]);
    const Bytes contrast = jittered({.contrast = 0.5}, seed, {80, 120}, 1);
    CHECK(std::abs(contrast[0] + contrast[1] - 200) <= 1);
    flattest = std::min<int>(flattest, contrast[1] - contrast[0]);
    steepest = std::max<int>(steepest, contrast[1] - contrast[0]);
  }
  CHECK((darkest >= 50 && darkest <= 51 && brightest >= 149 && brightest <= 150));
  CHECK((flattest >= 20 && flattest <= 21 && steepest >= 59 && steepest <= 60));
}

TEST_CASE("saturation keeps the brightness, hue keeps the largest and the smallest channel, and neither changes grey") {
  std::set<std::size_t> strongest;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ColorJitter saturation{.saturation = 0.9}, hue{.hue = 0.5};
    const Bytes colour = {200, 100, 50};
    const auto grey_of = [](const Bytes& c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]; };
    const Bytes saturated = jittered(saturation, seed, colour);
    if (saturated[0] < 255 && saturated[2] > 0) CHECK(std::abs(grey_of(saturated) - grey_of(colour)) <= 1);
    const Bytes turned = jittered(hue, seed, colour);
    CHECK(range(turned) == 150);
    CHECK(*std::max_element(turned.begin(), turned.end()) == 200);
    strongest.insert(static_cast<std::size_t>(std::max_element(turned.begin(), turned.end()) - turned.begin()));
    for (const ColorJitter& jitter : {saturation, hue}) CHECK(jittered(jitter, seed, {7, 7, 7}) == Bytes{7, 7, 7});
    CHECK(jittered({.saturation = 1, .hue = 0.5}, seed, {5, 9}, 1) == Bytes{5, 9});
  }
  CHECK(strongest.size() == 3);
}

TEST_CASE("the order of the properties is random, and the generator decides everything") {
  const ColorJitter jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  const Bytes pixels = random_bytes(300, 1);
  CHECK(jittered(jitter, 5, pixels) == jittered(jitter, 5, pixels));
  CHECK(jittered(jitter, 5, pixels) != jittered(jitter, 6, pixels));
  CHECK(jittered({}, 5, pixels) == pixels);
}
