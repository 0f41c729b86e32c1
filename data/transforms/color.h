#pragma once
// Random changes of colours, as torchvision's ColorJitter.

#include <cstdint>
#include <span>

#include "core/base/random.h"

namespace braid {

/// How much each property may change. A brightness of 0.4 multiplies by 0.6 to 1.4; so do contrast and saturation. A
/// hue of 0.1 turns colours by up to a tenth of the circle; at most 0.5.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
  friend bool operator==(const ColorJitter&, const ColorJitter&) = default;
};

/// Changes pixels u8 [N,channels] in a random order of the properties. Saturation and hue need three channels, RGB, and
/// change no others.
void jitter_colors(const ColorJitter& jitter, Generator& random, int channels, std::span<std::uint8_t> pixels);

}  // namespace braid
