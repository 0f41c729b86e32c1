#pragma once
// Antialiased bilinear resampling, as in Pillow and torchvision.

#include <cstdint>
#include <span>

#include "data/dataset.h"

namespace braid {

/// A part of an image, in pixels.
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Scales the part `from` of an image to height×width, and writes the part `shown` of the result: cropping afterwards
/// gives the same pixels. Differs from Pillow by at most 1, because it rounds once and not twice.
/// out: u8 [shown.height,shown.width,C].
void resize(const Image& image, const Window& from, std::int64_t height, std::int64_t width, const Window& shown,
            std::span<std::uint8_t> out);

}  // namespace braid
