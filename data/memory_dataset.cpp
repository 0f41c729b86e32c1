#include "data/memory_dataset.h"

#include <utility>

#include "core/text/text.h"

namespace braid {

MemoryDataset::MemoryDataset(std::string name, const Shape& image_shape, int classes, std::vector<std::uint8_t> pixels,
                             std::vector<std::uint16_t> labels, std::vector<std::string> class_names)
    : name_(std::move(name)),
      image_shape_(image_shape),
      classes_(classes),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      class_names_(std::move(class_names)) {
  BRAID_CHECK(image_shape.rank() == 3, DataError, "[", name_, "] expected images of shape [H,W,C], got ", image_shape);
  BRAID_CHECK(std::ssize(pixels_) == std::ssize(labels_) * image_shape.size(), DataError, "[", name_, "] expected ",
              plural(labels_.size(), "image"), " of shape ", image_shape, " (one per label), got ",
              plural(pixels_.size(), "byte"), " of pixels");
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    BRAID_CHECK(labels_[i] < classes, DataError, "[", name_, "] label ", i, " is ", int{labels_[i]}, ", expected 0 to ",
                classes - 1);
  }
}

Image MemoryDataset::image(std::int64_t index) const {
  check_index(index);
  const auto bytes = static_cast<std::size_t>(image_shape_.size());
  return {image_shape_, std::span(pixels_).subspan(static_cast<std::size_t>(index) * bytes, bytes)};
}

int MemoryDataset::label(std::int64_t index) const {
  check_index(index);
  return labels_[static_cast<std::size_t>(index)];
}

}  // namespace braid
