#include "data/formats/scan.h"

#include <algorithm>
#include <cmath>

#include "core/device/cpu/thread_pool.h"

namespace braid {
namespace {

/// A part of a scan, by one thread.
class Scanner {
 public:
  Scanner(const ImageDataset& dataset, const TransformOptions& options)
      : dataset_(dataset), shape_(dataset.image_shape()), transform_(options, shape_), crops_(options.crop_pct < 1) {
    scan.sums.resize(static_cast<std::size_t>(shape_[2]));
    scan.squares.resize(scan.sums.size());
    scan.per_class.resize(static_cast<std::size_t>(dataset.classes()));
  }

  void look_at(std::int64_t sample) {
    ++scan.images;
    try {
      const Image image = dataset_.image(sample);
      if (dataset_.has_masks()) count_classes(dataset_.mask(sample).pixels);
      ++scan.sizes[{image.shape[0], image.shape[1]}];
      scan.deep += image.bits > 8 ? 1 : 0;
      scan.with_alpha += image.has_alpha ? 1 : 0;
      if (image.shape == shape_ && !crops_) {
        add(image.pixels);
      } else {
        shown_.resize(static_cast<std::size_t>(shape_.size()));
        transform_.show_centre(image, shown_);
        add(shown_);
      }
    } catch (const DataError& error) {
      scan.bad.emplace(sample, error.what());
    }
  }

  DatasetScan scan = {};

 private:
  void add(std::span<const std::uint8_t> pixels) {
    const std::size_t channels = scan.sums.size();
    for (std::size_t i = 0; i < pixels.size(); i += channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        const std::uint32_t level = pixels[i + c];
        scan.sums[c] += level;
        scan.squares[c] += level * level;
      }
    }
    scan.pixels += static_cast<std::int64_t>(pixels.size() / channels);
  }

  void count_classes(std::span<const std::uint8_t> mask) {
    std::vector<bool> shown(scan.per_class.size());
    for (const std::uint8_t label : mask) {
      if (label < shown.size()) shown[label] = true;
    }
    for (std::size_t k = 0; k < shown.size(); ++k) scan.per_class[k] += shown[k] ? 1 : 0;
  }

  const ImageDataset& dataset_;
  Shape shape_;
  Transform transform_;
  bool crops_;
  std::vector<std::uint8_t> shown_;
};

void merge(DatasetScan& all, DatasetScan part) {
  all.images += part.images;
  all.deep += part.deep;
  all.with_alpha += part.with_alpha;
  all.pixels += part.pixels;
  for (const auto& [size, count] : part.sizes) all.sizes[size] += count;
  all.bad.merge(part.bad);
  for (std::size_t k = 0; k < part.per_class.size(); ++k) all.per_class[k] += part.per_class[k];
  for (std::size_t c = 0; c < part.sums.size(); ++c) {
    all.sums[c] += part.sums[c];
    all.squares[c] += part.squares[c];
  }
}

}  // namespace

std::vector<double> DatasetScan::mean() const {
  std::vector<double> means;
  for (const std::uint64_t sum : sums) {
    means.push_back(pixels == 0 ? 0 : static_cast<double>(sum) / 255 / static_cast<double>(pixels));
  }
  return means;
}

std::vector<double> DatasetScan::deviation() const {
  std::vector<double> deviations = mean();
  for (std::size_t c = 0; c < squares.size(); ++c) {
    const double square =
        pixels == 0 ? 0 : static_cast<double>(squares[c]) / (255.0 * 255) / static_cast<double>(pixels);
    deviations[c] = std::sqrt(std::max(0.0, square - deviations[c] * deviations[c]));
  }
  return deviations;
}

DatasetScan scan_dataset(const ImageDataset& dataset, const TransformOptions& options, int threads, std::int64_t most) {
  const std::int64_t size = dataset.size(), count = std::min(size, most);
  const int width = std::clamp(threads, 1, cpu::ThreadPool::kMaxMembers);
  cpu::ThreadPool::instance().reserve(width);
  std::vector<Scanner> scanners;
  for (int i = 0; i < width; ++i) scanners.emplace_back(dataset, options);
  parallel_for(width, count, 1, [&](std::int64_t i, std::int64_t, int member) {
    scanners[static_cast<std::size_t>(member)].look_at(i * size / count);
  });
  DatasetScan scan = std::move(scanners.front().scan);
  for (std::size_t i = 1; i < scanners.size(); ++i) merge(scan, std::move(scanners[i].scan));
  if (!dataset.has_masks()) {
    for (const int label : dataset.labels()) ++scan.per_class[static_cast<std::size_t>(label)];
  }
  return scan;
}

}  // namespace braid
