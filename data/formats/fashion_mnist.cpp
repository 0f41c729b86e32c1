#include "data/formats/fashion_mnist.h"

#include <filesystem>
#include <utility>

#include "core/text/text.h"
#include "data/formats/gzip.h"
#include "data/formats/idx.h"
#include "data/memory_dataset.h"

namespace braid {
namespace {

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

std::filesystem::path find(const std::filesystem::path& root, const std::string& name, const std::string& dataset) {
  for (const char* ending : {"", ".gz"}) {
    const std::filesystem::path path = root / (name + ending);
    std::error_code ignored;  // a folder that cannot be searched counts as empty
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw DataError(message("[", dataset, "] found neither ", name, " nor ", name, ".gz in ", root.string(), "; ",
                          root == kFashionMnistRoot ? "run scripts/setup.sh to install the dataset, or " : "",
                          "set data.root to the folder that has it"));
}

Idx read_images(const std::filesystem::path& path) {
  Idx images = parse_idx(read_data_file(path), path.string());
  const Shape& shape = images.shape;
  BRAID_CHECK(shape.rank() == 3 && shape[0] > 0 && shape[1] == kSide && shape[2] == kSide, DataError, path.string(),
              ": byte 3: expected images of shape [N,", kSide, ",", kSide, "] with N > 0, got ", shape);
  return images;
}

Idx read_labels(const std::filesystem::path& path) {
  Idx labels = parse_idx(read_data_file(path), path.string());
  BRAID_CHECK(labels.shape.rank() == 1, DataError, path.string(), ": byte 3: expected labels of shape [N], got ",
              labels.shape);
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    BRAID_CHECK(labels.values[i] < kClasses, DataError, path.string(), ": byte ", idx_header_bytes(1) + i, ": label ",
                i, " is ", int{labels.values[i]}, ", expected 0 to ", kClasses - 1);
  }
  return labels;
}

std::shared_ptr<const ImageDataset> read_idx(const std::string& name, const std::filesystem::path& folder, Split split,
                                             std::vector<std::string> class_names) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::filesystem::path images_path = find(folder, prefix + "-images-idx3-ubyte", name);
  const std::filesystem::path labels_path = find(folder, prefix + "-labels-idx1-ubyte", name);
  Idx images = read_images(images_path);
  Idx labels = read_labels(labels_path);
  BRAID_CHECK(images.shape[0] == labels.shape[0], DataError, labels_path.string(), ": byte 4: has ",
              plural(labels.shape[0], "label"), ", but ", images_path.string(), " has ",
              plural(images.shape[0], "image"));
  return std::make_shared<MemoryDataset>(name, Shape{kSide, kSide, 1}, kClasses, std::move(images.values),
                                         std::vector<std::uint16_t>(labels.values.begin(), labels.values.end()),
                                         std::move(class_names));
}

}  // namespace

std::shared_ptr<const ImageDataset> fashion_mnist(const std::string& root, Split split) {
  return read_idx(
      "fashion_mnist", root.empty() ? kFashionMnistRoot : root, split,
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"});
}

std::shared_ptr<const ImageDataset> mnist(const std::string& root, Split split) {
  return read_idx("mnist", root, split, {});
}

}  // namespace braid
