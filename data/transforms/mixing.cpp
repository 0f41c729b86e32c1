#include "data/transforms/mixing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace braid {
namespace {

/// Marsaglia and Tsang (2000), with their boost for shapes below 1.
double gamma_draw(Generator& random, double shape) {
  const auto uniform = [&] { return (static_cast<double>(random.next()) + 0.5) * 0x1p-32; };
  const double boost = shape < 1 ? std::pow(uniform(), 1 / shape) : 1;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const auto x = static_cast<double>(random.normal());
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return boost * d * v;
  }
}

/// Beta(α, α).
double beta_draw(Generator& random, double alpha) {
  const double a = gamma_draw(random, alpha), b = gamma_draw(random, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;  // tiny shapes underflow
}

/// Every image of the batch and its opposite, which may be itself: f(first, second).
template <class F>
void for_each_pair(Array& images, const F& f) {
  const std::span<float> pixels = images.as<float>();
  const auto count = static_cast<std::size_t>(images.shape()[0]), size = pixels.size() / count;
  for (std::size_t i = 0; i < (count + 1) / 2; ++i) {
    f(pixels.subspan(i * size, size), pixels.subspan((count - 1 - i) * size, size));
  }
}

void mix_up(float share, Array& images) {
  for_each_pair(images, [&](std::span<float> first, std::span<float> second) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      const float a = first[i], b = second[i];
      first[i] = share * a + (1 - share) * b;
      second[i] = share * b + (1 - share) * a;
    }
  });
}

/// Exchanges a rectangle of about 1 − share of the area, cut off at the border. Returns the share that stays.
float cut_mix(float share, Generator& random, Array& images) {
  const std::int64_t height = images.shape()[1], width = images.shape()[2], channels = images.shape()[3];
  const double side = std::sqrt(1.0 - static_cast<double>(share));
  const auto draw = [&](std::int64_t extent) {
    const auto half = static_cast<std::int64_t>(static_cast<double>(extent) * side) / 2;
    const auto middle = static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(extent)));
    return std::pair(std::max<std::int64_t>(0, middle - half), std::min(extent, middle + half));
  };
  const auto [top, bottom] = draw(height);
  const auto [left, right] = draw(width);
  for_each_pair(images, [&, top = top, bottom = bottom, left = left, right = right](std::span<float> first,
                                                                                    std::span<float> second) {
    if (first.data() == second.data()) return;
    for (std::int64_t y = top; y < bottom; ++y) {
      const std::int64_t begin = (y * width + left) * channels, end = (y * width + right) * channels;
      std::swap_ranges(first.begin() + begin, first.begin() + end, second.begin() + begin);
    }
  });
  return 1 - static_cast<float>((bottom - top) * (right - left)) / static_cast<float>(height * width);
}

}  // namespace

void mix(const MixingOptions& options, Generator& random, int classes, Batch& batch) {
  float share = 1;
  const bool mixed = static_cast<double>(random.uniform()) < options.probability;
  const bool cut = random.uniform() < 0.5f ? options.cutmix_alpha > 0 : options.mixup_alpha == 0;
  if (mixed) {
    share = static_cast<float>(beta_draw(random, cut ? options.cutmix_alpha : options.mixup_alpha));
    if (cut) {
      share = cut_mix(share, random, batch.images);
    } else {
      mix_up(share, batch.images);
    }
  }
  const std::span<std::int32_t> labels = batch.labels.as<std::int32_t>();
  batch.targets = Array(DType::f32, {batch.size(), classes});
  const std::span<float> targets = batch.targets.as<float>();
  const auto columns = static_cast<std::size_t>(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    targets[i * columns + static_cast<std::size_t>(labels[i])] += share;
    targets[i * columns + static_cast<std::size_t>(labels[labels.size() - 1 - i])] += 1 - share;
  }
  if (share < 0.5f) std::ranges::reverse(labels);
}

}  // namespace braid
