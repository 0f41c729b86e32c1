#pragma once
// From raw pixels to what a network reads: random crop, random flip, normalisation, noise.

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/shape.h"

namespace braid {

struct TransformOptions {
  int crop_padding = 0;  ///< pixels of zeros added on each side, out of which an image of the old size is cropped
  bool flip = false;     ///< mirror left to right, every second image on average
  /// Share of the pixels that become black or white, both equally often and all channels together.
  double salt_and_pepper = 0;
  /// Per channel, of pixels on the scale 0 to 1: the output is (pixel / 255 - mean) / std. Empty: 0 and 1.
  std::vector<float> mean = {}, std = {};
};

/// Where an output image comes from: output pixel (y, x) shows source pixel (y + dy, x + dx), or a black one if that
/// lies outside; then the output is mirrored.
struct CropFlip {
  std::int64_t dy = 0, dx = 0;
  bool flip = false;
};

/// Immutable, so that threads can share it. Arithmetic is in float and equals torchvision's
/// Pad, crop, RandomHorizontalFlip, ToTensor, Normalize in this order.
class Transform {
 public:
  /// image_shape: [H,W,C]. Throws ConfigError if an option is out of range or does not fit the channels.
  Transform(const TransformOptions& options, const Shape& image_shape);

  /// A random crop; the result depends on the generator only.
  CropFlip draw(Generator& random) const;
  /// pixels: u8 [H,W,C], out: f32 [H,W,C].
  void apply(std::span<const std::uint8_t> pixels, const CropFlip& crop, std::span<float> out) const;
  /// Salt and pepper on an image made by apply(), f32 [H,W,C].
  void add_noise(Generator& random, std::span<float> image) const;

 private:
  std::uint32_t crop_padding_;
  bool flip_;
  double salt_and_pepper_;
  std::int64_t height_, width_, channels_;
  std::vector<float> normalised_;  ///< [C,256]: the output for each value of a pixel
};

}  // namespace braid
