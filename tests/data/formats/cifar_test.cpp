#include "data/formats/cifar.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/data/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr std::size_t kPixels = 3072;

/// Records of random pixels.
Bytes records(const std::vector<Bytes>& labels, std::uint64_t seed) {
  Bytes file;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    file.insert(file.end(), labels[i].begin(), labels[i].end());
    const Bytes pixels = random_bytes(kPixels, seed + i);
    file.insert(file.end(), pixels.begin(), pixels.end());
  }
  return file;
}

void write_cifar10(const TemporaryFolder& folder, bool zipped = false) {
  for (std::uint8_t i = 1; i <= 5; ++i) {
    const Bytes content = records({{i}, {9}}, i * 10);
    folder.write("data_batch_" + std::to_string(i) + (zipped ? ".bin.gz" : ".bin"), zipped ? gzip(content) : content);
  }
  folder.write("test_batch.bin", records({{7}}, 99));
}

}  // namespace

TEST_CASE("CIFAR-10 is read in the order of its files, and its planes become pixels") {
  for (const bool zipped : {false, true}) {
    const TemporaryFolder folder;
    write_cifar10(folder, zipped);
    const auto train = cifar10(folder.path(), Split::train), test = cifar10(folder.path(), Split::test);
    CHECK(train->size() == 10);
    CHECK(test->size() == 1);
    CHECK(test->label(0) == 7);
    CHECK(train->image_shape() == Shape{32, 32, 3});
    CHECK(train->classes() == 10);
    for (std::int64_t i = 0; i < 10; ++i) {
      CHECK(train->label(i) == (i % 2 == 0 ? i / 2 + 1 : 9));
      const Bytes planes = random_bytes(kPixels, static_cast<std::uint64_t>((i / 2 + 1) * 10 + i % 2));
      const Image image = train->image(i);
      for (std::size_t p = 0; p < 1024; ++p) {
        for (std::size_t c = 0; c < 3; ++c) REQUIRE(image.pixels[p * 3 + c] == planes[c * 1024 + p]);
      }
    }
    CHECK(train->class_names()[3] == "3");
    std::string names;
    for (int i = 0; i < 10; ++i) names += "name " + std::to_string(i) + "\r\n";
    folder.write("batches.meta.txt", Bytes(names.begin(), names.end()));
    CHECK(cifar10(folder.path(), Split::test)->class_names()[3] == "name 3");
    folder.write("batches.meta.txt", {'x'});
    CHECK_THROWS_WITH_AS(cifar10(folder.path(), Split::test), doctest::Contains("expected 10 names of classes, got 1"),
                         DataError);
  }
}

TEST_CASE("CIFAR-100 has fine labels, and either may lie in the folder of its archive") {
  const TemporaryFolder folder;
  folder.write("cifar-100-binary/train.bin", records({{1, 99}, {2, 0}}, 1));
  folder.write("cifar-100-binary/test.bin", records({{19, 42}}, 2));
  const auto train = cifar100(folder.path(), Split::train);
  CHECK(train->classes() == 100);
  CHECK(train->label(0) == 99);
  CHECK(train->label(1) == 0);
  CHECK(cifar100(folder.path(), Split::test)->label(0) == 42);
  CHECK(train->name() == "cifar100");
}

TEST_CASE("missing, truncated and mislabelled files of CIFAR are errors that name them") {
  const TemporaryFolder folder;
  const auto error = [&](Split split) { return error_of<DataError>([&] { cifar10(folder.path(), split); }); };
  CHECK(contains(error(Split::train), "[cifar10] there is no data_batch_1.bin in " + folder.path()));
  write_cifar10(folder);
  folder.write("test_batch.bin", Bytes(3000));
  CHECK(contains(error(Split::test), "test_batch.bin: byte 3000: expected records of 3073 bytes, got 0 and 3000"));
  folder.write("test_batch.bin", {});
  CHECK(contains(error(Split::test), "test_batch.bin: byte 0"));
  folder.write("test_batch.bin", records({{3}, {10}}, 1));
  CHECK(contains(error(Split::test), "test_batch.bin: byte 3073: label 1 is 10, expected 0 to 9"));
  std::filesystem::remove(folder.path() + "/data_batch_4.bin");
  CHECK(contains(error(Split::train), "there is no data_batch_4.bin"));
}
