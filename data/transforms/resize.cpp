#include "data/transforms/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace braid {
namespace {

/// The pixels that each pixel along an axis of the result averages, and their weights, which sum to 1.
struct Taps {
  struct Pixel {
    std::int64_t first, count;
  };
  std::vector<Pixel> pixels;
  std::vector<float> weights;  // [pixels,stride]
  std::int64_t stride;

  /// Works as precompute_coeffs() in Pillow's Resample.c: a triangle as wide as the pixel is in the source, or two
  /// pixels.
  Taps(std::int64_t from, std::int64_t to, std::int64_t first, std::int64_t count) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
    stride = static_cast<std::int64_t>(std::ceil(reach)) * 2 + 1;
    weights.resize(static_cast<std::size_t>(count * stride));
    for (std::int64_t i = 0; i < count; ++i) {
      const double center = (static_cast<double>(first + i) + 0.5) * scale;
      const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
      const auto end = std::min(static_cast<std::int64_t>(center + reach + 0.5), from);
      const auto weight = [&](std::int64_t x) {
        return std::max(0.0, 1 - std::abs((static_cast<double>(x) + 0.5 - center) / reach));
      };
      double sum = 0;
      for (std::int64_t x = begin; x < end; ++x) sum += weight(x);
      float* row = weights.data() + i * stride;
      for (std::int64_t x = begin; x < end; ++x) row[x - begin] = static_cast<float>(weight(x) / sum);
      pixels.push_back({begin, end - begin});
    }
  }
};

/// sum[x] = Σ weight·pixel over the rows that a tap names.
void blend_rows(const std::uint8_t* rows, std::int64_t row_bytes, const Taps::Pixel& tap, const float* weights,
                std::int64_t elements, float* sum) {
  for (std::int64_t t = 0; t < tap.count; ++t) {
    const std::uint8_t* row = rows + (tap.first + t) * row_bytes;
    const float weight = weights[t];
    if (t == 0) {
      for (std::int64_t x = 0; x < elements; ++x) sum[x] = weight * static_cast<float>(row[x]);
    } else {
      for (std::int64_t x = 0; x < elements; ++x) sum[x] += weight * static_cast<float>(row[x]);
    }
  }
}

/// One row of the result. The row has kLanes − 1 elements more than pixels, so that whole vectors can be read.
template <std::int64_t kChannels, std::int64_t kLanes>
void blend_columns(const float* row, const Taps& taps, std::int64_t channels, std::uint8_t* out) {
  for (std::size_t x = 0; x < taps.pixels.size(); ++x) {
    const Taps::Pixel tap = taps.pixels[x];
    const float* weights = taps.weights.data() + static_cast<std::int64_t>(x) * taps.stride;
    for (std::int64_t c = 0; c < channels; c += kChannels) {
      float sum[kLanes];
      std::fill_n(sum, kLanes, 0.5f);  // to round
      for (std::int64_t t = 0; t < tap.count; ++t) {
        const float* pixel = row + (tap.first + t) * channels + c;
        for (std::int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += weights[t] * pixel[lane];
      }
      for (std::int64_t lane = 0; lane < kChannels; ++lane) *out++ = static_cast<std::uint8_t>(sum[lane]);
    }
  }
}

}  // namespace

void resize(const Image& image, const Window& from, std::int64_t height, std::int64_t width, const Window& shown,
            std::span<std::uint8_t> out) {
  const std::int64_t channels = image.shape[2], row_bytes = image.shape[1] * channels;
  const Taps vertical(from.height, height, shown.top, shown.height);
  const Taps horizontal(from.width, width, shown.left, shown.width);
  const std::uint8_t* rows = image.pixels.data() + from.top * row_bytes + from.left * channels;
  std::vector<float> row(static_cast<std::size_t>(from.width * channels) + 3);
  for (std::int64_t y = 0; y < shown.height; ++y) {
    blend_rows(rows, row_bytes, vertical.pixels[static_cast<std::size_t>(y)],
               vertical.weights.data() + y * vertical.stride, from.width * channels, row.data());
    std::uint8_t* target = out.data() + y * shown.width * channels;
    if (channels == 3) {
      blend_columns<3, 4>(row.data(), horizontal, channels, target);
    } else {
      blend_columns<1, 1>(row.data(), horizontal, channels, target);
    }
  }
}

}  // namespace braid
