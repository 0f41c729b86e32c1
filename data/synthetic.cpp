#include "data/synthetic.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "data/memory_dataset.h"

namespace braid {
namespace {

constexpr std::int64_t kBlock = 4;

/// Pixels in 64 … 191, so that noise in -64 … 63 stays within a byte.
std::vector<std::uint8_t> pattern(const Shape& shape, Generator random) {
  const std::int64_t columns = (shape[1] + kBlock - 1) / kBlock;
  const std::int64_t rows = (shape[0] + kBlock - 1) / kBlock;
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(rows * columns * shape[2]));
  for (std::uint8_t& block : blocks) block = static_cast<std::uint8_t>(64 + random.below(128));

  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(shape.size()));
  for (std::int64_t y = 0; y < shape[0]; ++y) {
    for (std::int64_t x = 0; x < shape[1]; ++x) {
      const std::int64_t block = (y / kBlock * columns + x / kBlock) * shape[2];
      for (std::int64_t c = 0; c < shape[2]; ++c) pixels.push_back(blocks[static_cast<std::size_t>(block + c)]);
    }
  }
  return pixels;
}

void append_with_noise(const std::vector<std::uint8_t>& pattern, Generator random, std::vector<std::uint8_t>& pixels) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    bits = i % 4 == 0 ? random.next() : bits >> 8;  // a draw has noise for four bytes
    pixels.push_back(static_cast<std::uint8_t>(pattern[i] + (bits & 127u) - 64u));
  }
}

}  // namespace

std::shared_ptr<const ImageDataset> synthetic(const SyntheticOptions& options) {
  BRAID_CHECK(options.size >= 1, ConfigError, "[synthetic] expected size >= 1, got ", options.size);
  BRAID_CHECK(options.shape.rank() == 3 && options.shape.size() > 0, ConfigError,
              "[synthetic] expected a shape [H,W,C] of positive extents, got ", options.shape);
  BRAID_CHECK(options.classes >= 1 && options.classes <= kMaxSyntheticClasses, ConfigError,
              "[synthetic] expected 1 to ", kMaxSyntheticClasses, " classes, got ", options.classes);
  std::vector<std::vector<std::uint8_t>> patterns;
  for (int k = 0; k < std::min<std::int64_t>(options.classes, options.size); ++k) {
    patterns.push_back(pattern(options.shape, Generator(options.seed, static_cast<std::uint64_t>(k))));
  }
  const std::uint64_t noise_streams = (static_cast<std::uint64_t>(options.split) + 1) << 62;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint16_t> labels;
  pixels.reserve(static_cast<std::size_t>(options.size * options.shape.size()));
  for (std::int64_t i = 0; i < options.size; ++i) {
    const std::int64_t k = i % options.classes;
    labels.push_back(static_cast<std::uint16_t>(k));
    append_with_noise(patterns[static_cast<std::size_t>(k)],
                      Generator(options.seed, noise_streams + static_cast<std::uint64_t>(i)), pixels);
  }
  return std::make_shared<MemoryDataset>("synthetic", options.shape, options.classes, std::move(pixels),
                                         std::move(labels));
}

}  // namespace braid
