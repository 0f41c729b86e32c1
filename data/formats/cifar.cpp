#include "data/formats/cifar.h"

#include <filesystem>
#include <utility>

#include "core/base/read_file.h"
#include "core/text/text.h"
#include "data/formats/gzip.h"
#include "data/memory_dataset.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCifarSide = 32, kPlane = kCifarSide * kCifarSide, kChannels = 3;

struct CifarVersion {
  std::string name, folder;
  std::vector<std::string> train, test;
  std::string names;
  std::size_t label_bytes;  ///< before the pixels; the last one is the label
  int classes;
};

const CifarVersion kCifar10{
    "cifar10",
    "cifar-10-batches-bin",
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    {"test_batch.bin"},
    "batches.meta.txt",
    1,
    10};
const CifarVersion kCifar100{"cifar100", "cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2,
                             100};

/// Appends the records of a file: labels, then the planes of red, green and blue.
void read_records(const fs::path& path, const CifarVersion& version, std::vector<std::uint8_t>& pixels,
                  std::vector<std::uint16_t>& labels) {
  const std::vector<std::uint8_t> content = read_data_file(path);
  const std::size_t record = version.label_bytes + kChannels * kPlane;
  BRAID_CHECK(!content.empty() && content.size() % record == 0, DataError, path.string(), ": byte ", content.size(),
              ": expected records of ", record, " bytes, got ", content.size() / record, " and ",
              content.size() % record, " bytes more");
  pixels.reserve(pixels.size() + content.size());
  for (std::size_t at = 0; at < content.size(); at += record) {
    const std::size_t label = at + version.label_bytes - 1;
    BRAID_CHECK(content[label] < version.classes, DataError, path.string(), ": byte ", label, ": label ", at / record,
                " is ", int{content[label]}, ", expected 0 to ", version.classes - 1);
    labels.push_back(content[label]);
    const std::uint8_t* planes = content.data() + label + 1;
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t c = 0; c < kChannels; ++c) pixels.push_back(planes[c * kPlane + i]);
    }
  }
}

/// A name per line; none if there is no such file. Throws DataError if there are more or fewer than classes.
std::vector<std::string> read_names(const fs::path& path, const CifarVersion& version) {
  std::error_code ignored;
  std::vector<std::string> names;
  if (!fs::exists(path, ignored)) return names;
  constexpr std::size_t kMaxBytes = 1 << 20;
  for (std::string& line : split_text(read_file(path, "the names of classes", kMaxBytes), '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  BRAID_CHECK(std::ssize(names) == version.classes, DataError, path.string(), ": expected ", version.classes,
              " names of classes, got ", names.size());
  return names;
}

std::shared_ptr<const ImageDataset> read_cifar(const CifarVersion& version, const std::string& root, Split split) {
  std::error_code ignored;
  const fs::path inner = fs::path(root) / version.folder;
  const fs::path folder = fs::is_directory(inner, ignored) ? inner : fs::path(root);
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint16_t> labels;
  for (const std::string& name : split == Split::train ? version.train : version.test) {
    fs::path path = folder / name;
    if (!fs::exists(path, ignored) && fs::exists(path.string() + ".gz", ignored)) path += ".gz";
    BRAID_CHECK(fs::exists(path, ignored), DataError, "[", version.name, "] there is no ", name, " in ",
                folder.string(), "; set data.root to the folder with the files of the binary version");
    read_records(path, version, pixels, labels);
  }
  return std::make_shared<MemoryDataset>(version.name, Shape{kCifarSide, kCifarSide, kChannels}, version.classes,
                                         std::move(pixels), std::move(labels),
                                         read_names(folder / version.names, version));
}

}  // namespace

std::shared_ptr<const ImageDataset> cifar10(const std::string& root, Split split) {
  return read_cifar(kCifar10, root, split);
}

std::shared_ptr<const ImageDataset> cifar100(const std::string& root, Split split) {
  return read_cifar(kCifar100, root, split);
}

}  // namespace braid
