#include "data/dataset.h"

#include <algorithm>

namespace braid {

Sample ImageDataset::sample(std::int64_t index, Generator&) const {
  const auto check = [&](std::string_view what, const Image& read) {
    BRAID_CHECK(std::ssize(read.pixels) == read.shape.size(), DataError, "[", name(), "] ", what, ' ', index, " has ",
                read.pixels.size(), " bytes, expected ", read.shape.size(), " for shape ", read.shape);
    return read;
  };
  const Image read = check("image", image(index));
  Array pixels(DType::u8, read.shape);
  std::ranges::copy(read.pixels, pixels.as<std::uint8_t>().begin());
  if (!has_masks()) return {pixels, Array::scalar(std::int32_t{label(index)})};
  const Image labels = check("mask", mask(index));
  Array classes(DType::i32, {labels.shape[0], labels.shape[1]});
  std::ranges::copy(labels.pixels, classes.as<std::int32_t>().begin());
  return {pixels, classes};
}

int ImageDataset::label(std::int64_t) const {
  throw Error(message("[", name(), "] an image has no label of its own, but a mask with those of its pixels"));
}

Image ImageDataset::mask(std::int64_t) const { throw Error(message("[", name(), "] there are no masks")); }

std::string_view to_string(Split split) {
  return split == Split::train ? "training" : split == Split::val ? "validation" : "test";
}

Hash ImageDataset::fingerprint() const {
  Hash hash;
  hash.add(size());
  for (const std::string& name : class_names()) hash.add(name);
  for (std::int64_t i = 0; i < size() && !has_masks(); ++i) hash.add(label(i));
  try {
    const Image last = image(size() - 1);
    hash.add(std::string_view(reinterpret_cast<const char*>(last.pixels.data()), last.pixels.size()));
  } catch (const DataError&) {  // unreadable for all ranks
  }
  return hash;
}

Batch blank_batch(const ImageDataset& dataset, std::int64_t size) {
  const Shape image = dataset.image_shape();
  return {Array(DType::f32, {size, image[0], image[1], image[2]}),
          Array(DType::i32, dataset.has_masks() ? Shape{size, image[0], image[1]} : Shape{size})};
}

const Array& Batch::operator[](std::size_t i) const {
  const bool of_images = tensors.empty();
  const std::size_t count = of_images ? 2 : tensors.size();
  BRAID_CHECK(i < count, Error, "[batch] there is no tensor ", i, ", this batch has ", count);
  return of_images ? (i == 0 ? images : labels) : tensors[i];
}

}  // namespace braid
