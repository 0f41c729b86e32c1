#include "data/formats/fashion_mnist.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";
constexpr std::size_t kImageBytes = 28 * 28;

Bytes three_images() { return idx({3, 28, 28}, random_bytes(3 * kImageBytes, 1)); }

std::string error_from(const TemporaryFolder& folder) {
  return error_of<DataError>([&] { fashion_mnist(folder.path(), Split::train); });
}

}  // namespace

TEST_CASE("plain and gzip files give the same dataset") {
  const Bytes pixels = random_bytes(3 * kImageBytes, 1);
  for (const bool zipped : {false, true}) {
    const TemporaryFolder folder;
    const std::string ending = zipped ? ".gz" : "";
    const auto stored = [&](const Bytes& content) { return zipped ? gzip(content) : content; };
    folder.write(kImages + ending, stored(idx({3, 28, 28}, pixels)));
    folder.write(kLabels + ending, stored(idx({3}, {9, 0, 4})));
    const auto dataset = fashion_mnist(folder.path(), Split::train);
    CHECK(dataset->size() == 3);
    CHECK(dataset->image_shape() == Shape{28, 28, 1});
    CHECK(dataset->classes() == 10);
    CHECK(dataset->name() == "fashion_mnist");
    CHECK(dataset->class_names()[9] == "Ankle boot");
    CHECK(mnist(folder.path(), Split::train)->name() == "mnist");
    CHECK(mnist(folder.path(), Split::train)->class_names()[9] == "9");
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto image = dataset->image(i).pixels;
      const auto expected = pixels.begin() + static_cast<std::ptrdiff_t>(kImageBytes) * i;
      CHECK(Bytes(image.begin(), image.end()) == Bytes(expected, expected + kImageBytes));
      CHECK(dataset->label(i) == Bytes{9, 0, 4}[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_CASE("the two splits are read from different files") {
  const TemporaryFolder folder;
  folder.write(kImages, three_images());
  folder.write(kLabels, idx({3}, {1, 2, 3}));
  folder.write("t10k-images-idx3-ubyte", idx({1, 28, 28}, random_bytes(kImageBytes, 2)));
  folder.write("t10k-labels-idx1-ubyte", idx({1}, {5}));
  CHECK(fashion_mnist(folder.path(), Split::train)->size() == 3);
  CHECK(fashion_mnist(folder.path(), Split::test)->label(0) == 5);
}

TEST_CASE("a missing file is an error that says what to do") {
  const TemporaryFolder folder;
  CHECK(contains(error_from(folder), kImages));
  folder.write(kImages, three_images());
  const std::string error = error_from(folder);
  for (const std::string& part : {std::string(kLabels), folder.path(), std::string("data.root")}) {
    CHECK_MESSAGE(contains(error, part), error);
  }
}

TEST_CASE("a label out of range is an error that names label and byte") {
  const TemporaryFolder folder;
  folder.write(kImages, three_images());
  folder.write(kLabels, idx({3}, {0, 9, 10}));
  CHECK(contains(error_from(folder), "train-labels-idx1-ubyte: byte 10: label 2 is 10, expected 0 to 9"));
}

TEST_CASE("different numbers of images and labels are an error") {
  const TemporaryFolder folder;
  folder.write(kImages, three_images());
  folder.write(kLabels, idx({2}, {0, 1}));
  const std::string error = error_from(folder);
  CHECK_MESSAGE(contains(error, "has 2 labels"), error);
  CHECK_MESSAGE(contains(error, "has 3 images"), error);
}

TEST_CASE("files of another shape are an error that names the file") {
  const TemporaryFolder folder;
  folder.write(kLabels, idx({3}, {0, 1, 2}));
  for (const Bytes& images : {idx({3, 28}, Bytes(84)), idx({3, 28, 29}, Bytes(2436)), idx({0, 28, 28}, {})}) {
    folder.write(kImages, images);
    CHECK(contains(error_from(folder), "train-images-idx3-ubyte: byte 3: expected images of shape [N,28,28]"));
  }
  folder.write(kImages, three_images());
  folder.write(kLabels, three_images());
  CHECK(contains(error_from(folder), "train-labels-idx1-ubyte: byte 3: expected labels of shape [N]"));
}

TEST_CASE("the dataset of the Debian package is complete" *
          doctest::skip(!std::filesystem::exists(kFashionMnistRoot))) {
  const auto dataset = fashion_mnist("", Split::test);
  REQUIRE(dataset->size() == 10000);
  std::vector<int> count(10);
  for (std::int64_t i = 0; i < dataset->size(); ++i) ++count[static_cast<std::size_t>(dataset->label(i))];
  CHECK(count == std::vector<int>(10, 1000));  // the classes are balanced
}
