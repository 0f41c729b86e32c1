#include "data/transforms/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace braid {
namespace {

constexpr int kRed = 0, kGreen = 1, kBlue = 2, kRgb = 3;

float grey(const std::uint8_t* pixel) {
  return 0.299f * static_cast<float>(pixel[kRed]) + 0.587f * static_cast<float>(pixel[kGreen]) +
         0.114f * static_cast<float>(pixel[kBlue]);
}

std::uint8_t to_byte(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f); }

/// Moves every byte away from `middle`, or towards it.
void scale_around(float middle, float factor, std::span<std::uint8_t> pixels) {
  std::array<std::uint8_t, 256> table;
  for (std::size_t level = 0; level < table.size(); ++level) {
    table[level] = to_byte(middle + factor * (static_cast<float>(level) - middle));
  }
  for (std::uint8_t& byte : pixels) byte = table[byte];
}

float mean_grey(int channels, std::span<const std::uint8_t> pixels) {
  double sum = 0;
  for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
    sum += static_cast<double>(channels == kRgb ? grey(&pixels[i]) : static_cast<float>(pixels[i]));
  }
  return static_cast<float>(sum * channels / static_cast<double>(pixels.size()));
}

void saturate(float factor, std::span<std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += kRgb) {
    const float middle = grey(&pixels[i]);
    for (std::size_t c = i; c < i + kRgb; ++c) {
      pixels[c] = to_byte(middle + factor * (static_cast<float>(pixels[c]) - middle));
    }
  }
}

/// Turns the hue of HSV by a part of the circle; the largest and the smallest of red, green and blue stay.
void turn_hue(float turn, std::span<std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += kRgb) {
    const auto r = static_cast<float>(pixels[i]), g = static_cast<float>(pixels[i + 1]),
               b = static_cast<float>(pixels[i + 2]);
    const float high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
    if (range == 0) continue;
    float hue = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    hue = hue / 6 + turn;
    hue = 6 * (hue - std::floor(hue));
    const auto level = [&](float offset) {  // https://en.wikipedia.org/wiki/HSL_and_HSV#HSV_to_RGB_alternative
      float k = offset + hue;
      k = k >= 6 ? k - 6 : k;
      return to_byte(high - range * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f));
    };
    pixels[i] = level(5);
    pixels[i + 1] = level(3);
    pixels[i + 2] = level(1);
  }
}

}  // namespace

void jitter_colors(const ColorJitter& jitter, Generator& random, int channels, std::span<std::uint8_t> pixels) {
  enum Property { brightness, contrast, saturation, hue };
  std::array<Property, 4> order{brightness, contrast, saturation, hue};
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  const double limits[] = {jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue};
  for (const Property property : order) {
    const double limit = limits[property], draw = static_cast<double>(random.uniform()), low = std::max(0.0, 1 - limit);
    const bool of_color = property == saturation || property == hue;
    if (limit == 0 || (of_color && channels != kRgb)) continue;
    const auto factor = static_cast<float>(low + (1 + limit - low) * draw);
    switch (property) {
      case brightness: scale_around(0, factor, pixels); break;
      case contrast: scale_around(mean_grey(channels, pixels), factor, pixels); break;
      case saturation: saturate(factor, pixels); break;
      case hue: turn_hue(static_cast<float>(limit * (2 * draw - 1)), pixels); break;
    }
  }
}

}  // namespace braid
