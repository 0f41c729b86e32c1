#include "data/transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace braid {
namespace {

constexpr std::int64_t kLevels = 256;

void check(const TransformOptions& options, const Shape& image_shape) {
  BRAID_CHECK(image_shape.rank() == 3, ConfigError, "[transform] expected images of shape [H,W,C], got ", image_shape);
  BRAID_CHECK(options.crop_padding >= 0, ConfigError, "[transform] expected crop_padding >= 0, got ",
              options.crop_padding);
  BRAID_CHECK(options.salt_and_pepper >= 0 && options.salt_and_pepper <= 1, ConfigError,
              "[transform] expected salt_and_pepper in [0, 1], got ", options.salt_and_pepper);
  const auto channels = static_cast<std::size_t>(image_shape[2]);
  BRAID_CHECK(options.mean.empty() || options.mean.size() == channels, ConfigError, "[transform] expected mean for ",
              plural(channels, "channel"), " (images are ", image_shape, "), got ",
              plural(options.mean.size(), "value"));
  BRAID_CHECK(options.std.empty() || options.std.size() == channels, ConfigError, "[transform] expected std for ",
              plural(channels, "channel"), " (images are ", image_shape, "), got ",
              plural(options.std.size(), "value"));
  for (const float mean : options.mean) {
    BRAID_CHECK(std::isfinite(mean), ConfigError, "[transform] expected a finite mean, got ", mean);
  }
  for (const float deviation : options.std) {
    BRAID_CHECK(std::isfinite(deviation) && deviation > 0, ConfigError, "[transform] expected std > 0, got ",
                deviation);
  }
}

}  // namespace

Transform::Transform(const TransformOptions& options, const Shape& image_shape) {
  check(options, image_shape);
  crop_padding_ = static_cast<std::uint32_t>(options.crop_padding);
  flip_ = options.flip;
  salt_and_pepper_ = options.salt_and_pepper;
  height_ = image_shape[0];
  width_ = image_shape[1];
  channels_ = image_shape[2];
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels_); ++c) {
    const float mean = options.mean.empty() ? 0.0f : options.mean[c];
    const float deviation = options.std.empty() ? 1.0f : options.std[c];
    for (int level = 0; level < kLevels; ++level) {
      normalised_.push_back((static_cast<float>(level) / 255.0f - mean) / deviation);
    }
  }
}

CropFlip Transform::draw(Generator& random) const {
  const std::uint32_t positions = 2 * crop_padding_ + 1;
  CropFlip crop;
  crop.dy = std::int64_t{random.below(positions)} - crop_padding_;
  crop.dx = std::int64_t{random.below(positions)} - crop_padding_;
  crop.flip = flip_ && random.below(2) == 1;
  return crop;
}

void Transform::apply(std::span<const std::uint8_t> pixels, const CropFlip& crop, std::span<float> out) const {
  // The source columns that the crop shows; the output column of the first, and the step to the next one's.
  const std::int64_t first = std::max<std::int64_t>(0, crop.dx);
  const std::int64_t last = std::min(width_, width_ + crop.dx);
  const std::int64_t left = crop.flip ? width_ - 1 - (first - crop.dx) : first - crop.dx;
  const std::int64_t step = crop.flip ? -channels_ : channels_;
  for (std::int64_t c = 0; c < channels_; ++c) {
    const float* normalised = normalised_.data() + c * kLevels;
    for (std::int64_t y = 0; y < height_; ++y) {
      float* row = out.data() + y * width_ * channels_ + c;
      const std::int64_t source_y = y + crop.dy;
      const bool outside = source_y < 0 || source_y >= height_;
      if (outside || crop.dx != 0) {
        for (std::int64_t x = 0; x < width_; ++x) row[x * channels_] = normalised[0];
      }
      if (outside) continue;
      const std::uint8_t* source = pixels.data() + source_y * width_ * channels_ + c;
      float* target = row + left * channels_;
      for (std::int64_t x = first; x < last; ++x, target += step) *target = normalised[source[x * channels_]];
    }
  }
}

void Transform::add_noise(Generator& random, std::span<float> image) const {
  if (salt_and_pepper_ == 0) return;
  // Each pixel has 16 random bits; those below `pepper` make it black, those up to `noise` white.
  constexpr std::int64_t kPixelsPerBlock = 8;
  const auto noise = static_cast<std::uint32_t>(std::lround(salt_and_pepper_ * 0x1p16));
  const std::uint32_t pepper = noise / 2;
  const std::uint64_t key = std::uint64_t{random.next()} << 32 | random.next();
  const std::int64_t pixels = height_ * width_;
  for (std::int64_t first = 0; first < pixels; first += kPixelsPerBlock) {
    const PhiloxBlock block = philox(key, 0, static_cast<std::uint64_t>(first));
    const std::int64_t count = std::min(kPixelsPerBlock, pixels - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t bits = block.x[i / 2] >> (i % 2 * 16) & 0xffffu;
      float* pixel = image.data() + (first + i) * channels_;
      for (std::int64_t c = 0; c < channels_; ++c) {
        const float* levels = normalised_.data() + c * kLevels;
        const float choices[] = {levels[0], levels[kLevels - 1], pixel[c]};  // a branch would be mispredicted
        pixel[c] = choices[(bits >= pepper ? 1 : 0) + (bits >= noise ? 1 : 0)];
      }
    }
  }
}

}  // namespace braid
