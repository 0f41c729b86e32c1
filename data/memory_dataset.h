#pragma once
// A dataset that holds all its pixels in memory.

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace braid {

class MemoryDataset : public ImageDataset {
 public:
  /// pixels: u8 [N,H,W,C], image_shape: [H,W,C], labels: [N], class_names: one per class, or none.
  /// Throws DataError unless there is one label in 0 … classes - 1 for every image.
  MemoryDataset(std::string name, const Shape& image_shape, int classes, std::vector<std::uint8_t> pixels,
                std::vector<std::uint16_t> labels, std::vector<std::string> class_names = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  Shape image_shape() const override { return image_shape_; }
  int classes() const override { return classes_; }
  std::vector<std::string> class_names() const override {
    return class_names_.empty() ? ImageDataset::class_names() : class_names_;
  }
  std::string name() const override { return name_; }
  /// Throws DataError if the index is out of range, as does label().
  Image image(std::int64_t index) const override;
  int label(std::int64_t index) const override;

 private:
  std::string name_;
  Shape image_shape_;
  int classes_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint16_t> labels_;
  std::vector<std::string> class_names_;
};

}  // namespace braid
