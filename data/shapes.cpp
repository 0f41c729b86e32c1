#include "data/shapes.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/random.h"

namespace braid {
namespace {

/// Whether a place is in a shape of this kind and radius around the origin. Kind 0 is the ground.
bool is_inside(int kind, std::int64_t y, std::int64_t x, std::int64_t radius) {
  const std::int64_t far = std::max(std::abs(y), std::abs(x)), near = std::min(std::abs(y), std::abs(x));
  switch (kind) {
    case 1: return y * y + x * x <= radius * radius;
    case 2: return far <= radius;
    case 3: return far + near <= radius;
    default: return far <= radius && 3 * near <= radius;
  }
}

class Shapes final : public ImageDataset {
 public:
  explicit Shapes(const ShapesOptions& options) : options_(options) {}

  std::int64_t size() const override { return options_.size; }
  Shape image_shape() const override { return options_.shape; }
  int classes() const override { return options_.classes; }
  std::vector<std::string> class_names() const override {
    const char* const names[kMaxShapeClasses] = {"ground", "disc", "square", "diamond", "cross"};
    return {names, names + options_.classes};
  }
  std::string name() const override { return "shapes"; }
  bool has_masks() const override { return true; }
  Image image(std::int64_t index) const override { return draw(index).first; }
  Image mask(std::int64_t index) const override { return draw(index).second; }

 private:
  /// The image and its mask: one to three shapes, the later ones above the earlier.
  std::pair<Image, Image> draw(std::int64_t index) const {
    check_index(index);
    const auto [height, width, channels] = std::array{options_.shape[0], options_.shape[1], options_.shape[2]};
    const std::uint64_t stream = (static_cast<std::uint64_t>(options_.split) + 1) << 62;
    Generator random(options_.seed, stream + static_cast<std::uint64_t>(index));
    const auto below = [&](std::int64_t limit) {
      return std::int64_t{random.below(static_cast<std::uint32_t>(limit))};
    };
    const auto bytes = [](std::int64_t count) {
      return std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(count));
    };
    const auto pixels = bytes(options_.shape.size()), mask = bytes(height * width);
    for (std::uint8_t& pixel : *pixels) pixel = static_cast<std::uint8_t>(below(96));
    const std::int64_t side = std::min(height, width), count = 1 + below(3);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto kind = static_cast<int>(1 + below(options_.classes - 1));
      const std::int64_t radius = side / 8 + below(side / 8 + 1), top = below(height), left = below(width);
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          if (!is_inside(kind, y - top, x - left, radius)) continue;
          const auto place = static_cast<std::size_t>(y * width + x);
          (*mask)[place] = static_cast<std::uint8_t>(kind);
          for (std::int64_t c = 0; c < channels; ++c) {
            (*pixels)[place * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)] =
                static_cast<std::uint8_t>(128 + below(128));
          }
        }
      }
    }
    return {{options_.shape, *pixels, {pixels, pixels->data()}}, {{height, width, 1}, *mask, {mask, mask->data()}}};
  }

  ShapesOptions options_;
};

}  // namespace

std::shared_ptr<const ImageDataset> shapes(const ShapesOptions& options) {
  BRAID_CHECK(options.size >= 1, ConfigError, "[shapes] expected size >= 1, got ", options.size);
  BRAID_CHECK(options.shape.rank() == 3 && options.shape.size() > 0, ConfigError,
              "[shapes] expected a shape [H,W,C] of positive extents, got ", options.shape);
  BRAID_CHECK(options.classes >= 2 && options.classes <= kMaxShapeClasses, ConfigError, "[shapes] expected 2 to ",
              kMaxShapeClasses, " classes, got ", options.classes);
  return std::make_shared<Shapes>(options);
}

}  // namespace braid
