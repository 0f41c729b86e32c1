#include "data/transforms/transform.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/text/text.h"

namespace braid {
namespace {

constexpr std::int64_t kLevels = 256;

void check(const TransformOptions& options, const Shape& image_shape) {
  BRAID_CHECK(image_shape.rank() == 3, ConfigError, "[transform] expected images of shape [H,W,C], got ", image_shape);
  BRAID_CHECK(options.crop_padding >= 0, ConfigError, "[transform] expected crop_padding >= 0, got ",
              options.crop_padding);
  const auto channels = static_cast<std::size_t>(image_shape[2]);
  for (const auto& [name, values] : {std::pair("mean", std::span(options.mean)), {"std", std::span(options.std)}}) {
    BRAID_CHECK(values.empty() || values.size() == channels, ConfigError, "[transform] expected ", name, " for ",
                plural(channels, "channel"), " (images are ", image_shape, "), got ", plural(values.size(), "value"));
  }
  const auto check_share = [](std::string_view name, double share) {
    BRAID_CHECK(share >= 0 && share <= 1, ConfigError, "[transform] expected ", name, " in [0, 1], got ", share);
  };
  check_share("salt_and_pepper", options.salt_and_pepper);
  check_share("random_erasing", options.random_erasing);
  check_share("crop_pct", options.crop_pct);
  check_share("scale", options.scale[1]);
  for (const auto& [name, range] : {std::pair("scale", options.scale), std::pair("ratio", options.ratio)}) {
    BRAID_CHECK(range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]), ConfigError, "[transform] expected ",
                name, " as two ascending numbers above 0, got ", range[0], " and ", range[1]);
  }
  const ColorJitter& jitter = options.color_jitter;
  for (const double change : {jitter.brightness, jitter.contrast, jitter.saturation, 2 * jitter.hue}) {
    BRAID_CHECK(change >= 0 && std::isfinite(change), ConfigError, "[transform] expected color_jitter >= 0, got ",
                change);
  }
  BRAID_CHECK(options.crop_pct > 0, ConfigError, "[transform] expected crop_pct > 0, got ", options.crop_pct);
  BRAID_CHECK(jitter.hue <= 0.5, ConfigError, "[transform] expected a hue of color_jitter <= 0.5, got ", jitter.hue);
  for (const float mean : options.mean) {
    BRAID_CHECK(std::isfinite(mean), ConfigError, "[transform] expected a finite mean, got ", mean);
  }
  for (const float deviation : options.std) {
    BRAID_CHECK(std::isfinite(deviation) && deviation > 0, ConfigError, "[transform] expected std > 0, got ",
                deviation);
  }
}

/// A random part of height×width whose share of the area and width over height lie in the ranges; empty if ten draws
/// gave none that fits.
Window draw_rectangle(Generator& random, std::int64_t height, std::int64_t width, const std::array<double, 2>& share,
                      const std::array<double, 2>& ratio) {
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  const auto below = [&](std::int64_t count) { return std::int64_t{random.below(static_cast<std::uint32_t>(count))}; };
  for (int draw = 0; draw < 10; ++draw) {
    const double area = static_cast<double>(height * width) * uniform(share[0], share[1]);
    const double shape = std::exp(uniform(std::log(ratio[0]), std::log(ratio[1])));
    const std::int64_t w = std::lround(std::sqrt(area * shape)), h = std::lround(std::sqrt(area / shape));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const std::int64_t top = below(height - h + 1);
    return {top, below(width - w + 1), h, w};
  }
  return {};
}

}  // namespace

Transform::Transform(const TransformOptions& options, const Shape& image_shape) : options_(options) {
  check(options, image_shape);
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

void Transform::operator()(const Image& image, Generator& random, std::span<float> out) const {
  const bool resized =
      options_.random_resized_crop || options_.crop_pct < 1 || image.shape[0] != height_ || image.shape[1] != width_;
  std::span<const std::uint8_t> pixels = image.pixels;
  std::vector<std::uint8_t> changed;
  if (resized || options_.color_jitter.any()) {
    changed.resize(out.size());
    if (options_.random_resized_crop) {
      resize(image, draw_part(random, image.shape[0], image.shape[1]), height_, width_, {0, 0, height_, width_},
             changed);
    } else if (resized) {
      show_centre(image, changed);
    } else {
      std::ranges::copy(pixels, changed.begin());
    }
    if (options_.color_jitter.any()) {
      jitter_colors(options_.color_jitter, random, static_cast<int>(channels_), changed);
    }
    pixels = changed;
  }
  apply(pixels, draw(random), out);  // what is drawn first moves masks, too (Loader::load_mask)
  add_noise(random, out);
  erase(random, out);
}

Window Transform::draw_part(Generator& random, std::int64_t height, std::int64_t width) const {
  const auto [top, left, h, w] = draw_rectangle(random, height, width, options_.scale, options_.ratio);
  if (h > 0) return {top, left, h, w};
  // Takes as much of the centre as the ratios allow.
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  const double wanted = std::clamp(shape, options_.ratio[0], options_.ratio[1]);
  const std::int64_t columns = shape > wanted ? std::lround(static_cast<double>(height) * wanted) : width;
  const std::int64_t rows = shape < wanted ? std::lround(static_cast<double>(width) / wanted) : height;
  const Window part{0, 0, std::clamp<std::int64_t>(rows, 1, height), std::clamp<std::int64_t>(columns, 1, width)};
  return {(height - part.height) / 2, (width - part.width) / 2, part.height, part.width};
}

void Transform::show_centre(const Image& image, std::span<std::uint8_t> out) const {
  const std::int64_t from_height = image.shape[0], from_width = image.shape[1];
  auto height = static_cast<std::int64_t>(static_cast<double>(height_) / options_.crop_pct);
  auto width = static_cast<std::int64_t>(static_cast<double>(width_) / options_.crop_pct);
  if (from_height * width < from_width * height) {
    width = height * from_width / from_height;
  } else {
    height = width * from_height / from_width;
  }
  const auto half = [](std::int64_t border) { return std::lrint(static_cast<double>(border) / 2); };
  resize(image, {0, 0, from_height, from_width}, height, width,
         {half(height - height_), half(width - width_), height_, width_}, out);
}

CropFlip Transform::draw(Generator& random) const {
  const auto padding = static_cast<std::uint32_t>(options_.crop_padding);
  const std::uint32_t positions = 2 * padding + 1;
  CropFlip crop;
  crop.dy = std::int64_t{random.below(positions)} - padding;
  crop.dx = std::int64_t{random.below(positions)} - padding;
  crop.flip = options_.flip && random.below(2) == 1;
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
  if (options_.salt_and_pepper == 0) return;
  // Each pixel has 16 random bits; those below `pepper` make it black, those up to `noise` white.
  constexpr std::int64_t kPixelsPerBlock = 8;
  const auto noise = static_cast<std::uint32_t>(std::lround(options_.salt_and_pepper * 0x1p16));
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

void Transform::erase(Generator& random, std::span<float> image) const {
  if (options_.random_erasing == 0 || static_cast<double>(random.uniform()) >= options_.random_erasing) return;
  const auto [top, left, h, w] = draw_rectangle(random, height_, width_, {0.02, 0.33}, {0.3, 3.3});
  for (std::int64_t y = top; y < top + h; ++y) {
    std::fill_n(image.data() + (y * width_ + left) * channels_, w * channels_, 0.0f);
  }
}

}  // namespace braid
