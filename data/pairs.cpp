#include "data/pairs.h"

#include <algorithm>
#include <utility>

namespace braid {
namespace {

std::vector<std::int64_t> draw_partners(const ImageDataset& dataset, std::uint64_t seed) {
  const std::vector<int> labels = dataset.labels();
  std::vector<std::int64_t> by_class(labels.size());  // the images, those of one class together
  for (std::size_t i = 0; i < labels.size(); ++i) by_class[i] = static_cast<std::int64_t>(i);
  const auto label_of = [&](std::int64_t image) { return labels[static_cast<std::size_t>(image)]; };
  std::ranges::stable_sort(by_class, {}, label_of);

  std::vector<std::int64_t> partners(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto own = std::ranges::lower_bound(by_class, labels[i], {}, label_of);
    const auto others = std::ranges::upper_bound(by_class, labels[i], {}, label_of);
    const auto first = static_cast<std::size_t>(own - by_class.begin()), count = static_cast<std::size_t>(others - own);
    BRAID_CHECK(count < labels.size(), DataError, "[pairs] expected images of at least two classes, ", dataset.name(),
                " has those of class ", labels[i], " only");
    Generator random(seed, i);
    const auto below = [&](std::size_t limit) { return random.below(static_cast<std::uint32_t>(limit)); };
    if (i % 2 == 0) {  // the next one in place of the image itself, unless it is the only one
      const std::size_t drawn = first + below(std::max<std::size_t>(count - 1, 1));
      const auto own_place =
          static_cast<std::size_t>(std::lower_bound(own, others, static_cast<std::int64_t>(i)) - by_class.begin());
      partners[i] = by_class[drawn + (count > 1 && drawn >= own_place ? 1 : 0)];
    } else {
      partners[i] = by_class[(first + count + below(labels.size() - count)) % labels.size()];
    }
  }
  return partners;
}

}  // namespace

Pairs::Pairs(std::shared_ptr<const ImageDataset> dataset, std::uint64_t seed)
    : dataset_(std::move(dataset)), partners_(draw_partners(*dataset_, seed)) {}

Shape Pairs::image_shape() const {
  const Shape one = dataset_->image_shape();
  return {one[0], 2 * one[1], one[2]};
}

Image Pairs::image(std::int64_t index) const {
  check_index(index);
  const Shape one = dataset_->image_shape();
  const auto row = static_cast<std::size_t>(one[1] * one[2]);
  const auto pixels = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(2 * one.size()));
  for (const std::size_t half : {0u, 1u}) {
    const std::int64_t source = half == 0 ? index : partners_[static_cast<std::size_t>(index)];
    const Image image = dataset_->image(source);
    BRAID_CHECK(image.shape == one && std::ssize(image.pixels) == one.size(), DataError, "[pairs] ", dataset_->name(),
                ": image ", source, " has shape ", image.shape, ", expected ", one,
                ": pairs are made of images of one size");
    for (std::size_t y = 0; y < static_cast<std::size_t>(one[0]); ++y) {
      std::ranges::copy(image.pixels.subspan(y * row, row),
                        pixels->begin() + static_cast<std::ptrdiff_t>((2 * y + half) * row));
    }
  }
  return {.shape = image_shape(), .pixels = *pixels, .owner = {pixels, pixels->data()}};
}

int Pairs::label(std::int64_t index) const {
  check_index(index);
  return dataset_->label(index) == dataset_->label(partners_[static_cast<std::size_t>(index)]) ? 1 : 0;
}

}  // namespace braid
