#pragma once
// Turns an image of any size into a network's input: resize, crop, colour jitter, flip, normalisation, noise, erasing.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/random.h"
#include "core/base/shape.h"
#include "data/dataset.h"
#include "data/transforms/color.h"
#include "data/transforms/resize.h"

namespace braid {

struct TransformOptions {
  int crop_padding = 0;  ///< pixels of zeros added on each side, out of which an image of the old size is cropped
  bool flip = false;     ///< mirror left to right, every second image on average
  /// Share of the pixels that become black or white, both equally often and all channels together.
  double salt_and_pepper = 0;
  /// Mean and deviation of pixels per channel, on the scale 0 to 1: the output is (pixel / 255 - mean) / std. Empty: 0
  /// and 1.
  std::vector<float> mean = {}, std = {};

  /// Shows a random part of an image, scaled to the size of the batch: see scale and ratio. Otherwise an image of
  /// another size is scaled until it covers a batch's image over crop_pct, and its centre shown.
  bool random_resized_crop = false;
  std::array<double, 2> scale = {0.08, 1};           ///< smallest and largest area of the part, as a share
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< smallest and largest width over height
  double crop_pct = 1;
  ColorJitter color_jitter = {};
  double random_erasing = 0;  ///< probability that a rectangle (2 to 33 % of the area) turns to 0 after normalisation
  friend bool operator==(const TransformOptions&, const TransformOptions&) = default;
};

/// Where an output image comes from: output pixel (y, x) shows source pixel (y + dy, x + dx), or a black one if that
/// lies outside; then the output is mirrored.
struct CropFlip {
  std::int64_t dy = 0, dx = 0;
  bool flip = false;
};

/// Immutable, so that threads can share it. Equals torchvision's RandomResizedCrop (or Resize, CenterCrop),
/// ColorJitter, Pad, crop, RandomHorizontalFlip, ToTensor, Normalize, RandomErasing in this order.
class Transform {
 public:
  /// image_shape: [H,W,C] of the result. Throws ConfigError if an option is out of range or does not fit the channels.
  Transform(const TransformOptions& options, const Shape& image_shape);

  /// Applies all transforms; the result depends on the image and the generator only. The image has C channels; out: f32
  /// [H,W,C].
  void operator()(const Image& image, Generator& random, std::span<float> out) const;
  /// The part of an image of height×width that a random resized crop shows.
  Window draw_part(Generator& random, std::int64_t height, std::int64_t width) const;
  /// The centre of an image of any size, scaled: u8 [H,W,C].
  void show_centre(const Image& image, std::span<std::uint8_t> out) const;

  /// A random crop; the result depends on the generator only.
  CropFlip draw(Generator& random) const;
  /// pixels: u8 [H,W,C], out: f32 [H,W,C].
  void apply(std::span<const std::uint8_t> pixels, const CropFlip& crop, std::span<float> out) const;
  /// Salt and pepper on an image made by apply(), f32 [H,W,C].
  void add_noise(Generator& random, std::span<float> image) const;
  /// Random erasing of such an image.
  void erase(Generator& random, std::span<float> image) const;

 private:
  TransformOptions options_;
  std::int64_t height_, width_, channels_;
  std::vector<float> normalised_;  ///< [C,256]: the output for each value of a pixel
};

}  // namespace braid
