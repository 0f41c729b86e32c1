// Datasets with a label for each pixel.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "data/formats/image_files.h"
#include "data/formats/scan.h"
#include "data/loader/loader.h"
#include "data/shapes.h"
#include "tests/data/images.h"

using namespace braid;
using namespace braid::testing;

namespace {

Batch first_batch(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  Loader loader(std::move(dataset), options);
  return *loader.begin();
}

void write_grey(const TemporaryFolder& folder, const std::string& name, int side, const Bytes& pixels) {
  folder.write(name, png(side, side, 8, 0, pixels));
}

const ImageFilesOptions kTwo{.image_shape = {2, 2, 1}};

}  // namespace

TEST_CASE("shapes are lighter than the ground, and their masks say which they are") {
  const auto dataset = shapes({.size = 200, .shape = {16, 24, 2}, .seed = 5});
  CHECK(dataset->has_masks());
  CHECK(dataset->class_names() == std::vector<std::string>{"ground", "disc", "square", "diamond", "cross"});
  std::set<int> found;
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const Image image = dataset->image(i), mask = dataset->mask(i);
    REQUIRE(image.shape == Shape{16, 24, 2});
    REQUIRE(mask.shape == Shape{16, 24, 1});
    for (std::size_t p = 0; p < mask.pixels.size(); ++p) {
      found.insert(mask.pixels[p]);
      for (const std::size_t c : {0u, 1u}) CHECK((image.pixels[2 * p + c] >= 128) == (mask.pixels[p] != 0));
    }
  }
  CHECK(found == std::set<int>{0, 1, 2, 3, 4});
  const auto other = shapes({.size = 1, .shape = {16, 24, 2}, .seed = 5, .split = Split::val});
  CHECK_FALSE(std::ranges::equal(other->image(0).pixels, dataset->image(0).pixels));
  CHECK(error_of<ConfigError>([] { shapes({.classes = 6}); }) == "[shapes] expected 2 to 5 classes, got 6");
  CHECK(error_of<Error>([&] { dataset->label(0); }) ==
        "[shapes] an image has no label of its own, but a mask with those of its pixels");
  CHECK_THROWS_AS(dataset->image(200), DataError);
}

TEST_CASE("labels of pixels are cropped and flipped as the pixels are") {
  const auto dataset = shapes({.size = 64, .shape = {16, 16, 1}});
  LoaderOptions options{.batch_size = 64, .seed = 3, .workers = 2, .transform = {.crop_padding = 4, .flip = true}};
  const Batch plain = first_batch(dataset, {.batch_size = 64}), moved = first_batch(dataset, options);
  CHECK(plain.size() == 64);
  CHECK(plain.labels.shape() == Shape{64, 16, 16});
  std::size_t changed = 0;
  for (const Batch& batch : {plain, moved}) {
    const auto pixels = batch.images.as<float>();
    const auto labels = batch.labels.as<std::int32_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK((pixels[i] > 0.5f) == (labels[i] != 0));
      changed += labels[i] != plain.labels.as<std::int32_t>()[i] ? 1 : 0;
    }
  }
  CHECK(changed > 1000);
  options.transform.salt_and_pepper = 0.1;
  options.transform.random_erasing = 0.5;
  const Batch noisy = first_batch(dataset, options);
  CHECK(std::ranges::equal(noisy.labels.as<std::int32_t>(), moved.labels.as<std::int32_t>()));
}

TEST_CASE("what would take pixels away from their labels is refused") {
  const auto dataset = shapes({.size = 4});
  for (const LoaderOptions& options : {LoaderOptions{.transform = {.random_resized_crop = true}},
                                       {.transform = {.color_jitter = {.hue = 0.1}}},
                                       {.transform = {.crop_pct = 0.5}},
                                       {.mixing = {.mixup_alpha = 1}}}) {
    CHECK(error_of<ConfigError>([&] { Loader(dataset, options); }) ==
          "[loader] shapes has a label for each pixel: its images cannot be resized, mixed, or changed in colour");
  }
}

TEST_CASE("a collate function gets masks as i32 [H,W]") {
  Generator random(0);
  const Sample sample = shapes({.size = 1, .shape = {8, 12, 3}})->sample(0, random);
  CHECK(sample[0].shape() == Shape{8, 12, 3});
  CHECK(sample[1].shape() == Shape{8, 12});
  CHECK(sample[1].dtype() == DType::i32);
}

TEST_CASE("files of images have files of masks next to them") {
  const TemporaryFolder folder;
  for (const std::string part : {"train/", "val/"}) {
    write_grey(folder, part + "images/a.png", 2, {10, 20, 30, 40});
    write_grey(folder, part + "masks/a.png", 2, {0, 1, 2, 0});
  }
  write_grey(folder, "train/images/more/b.png", 2, {1, 2, 3, 4});
  write_grey(folder, "train/masks/more/b.png", 2, {2, 2, 2, 2});
  const auto train = image_masks(folder.path(), Split::train, 3, kTwo);
  CHECK(train->size() == 2);
  CHECK(image_masks(folder.path(), Split::val, 3, kTwo)->size() == 1);
  CHECK(std::ranges::equal(train->image(0).pixels, Bytes{10, 20, 30, 40}));
  CHECK(std::ranges::equal(train->mask(0).pixels, Bytes{0, 1, 2, 0}));
  CHECK(train->mask(1).pixels[0] == 2);

  const DatasetScan scan = scan_dataset(*train, {}, 2, 100);
  CHECK(scan.per_class == std::vector<std::int64_t>{1, 1, 2});
  const auto two = image_masks(folder.path(), Split::train, 2, kTwo);
  const std::string why = folder.path() + "/train/masks/a.png: expected labels 0 to 1 (data.classes), found 2";
  CHECK(error_of<DataError>([&] { two->mask(0); }) == why);
  CHECK(scan_dataset(*two, {}, 1, 100).bad.at(0) == why);
  CHECK(contains(error_of<Error>([&] { first_batch(two, {}); }), why));

  write_grey(folder, "train/masks/a.png", 2, {0, 1, 1, 0});
  Loader passes_over(two, {.batch_size = 2, .max_bad = 1});
  Batch batch;
  CHECK(passes_over.next(batch));
  CHECK(passes_over.bad().size() == 1);
  CHECK(batch.labels.as<std::int32_t>()[1] == 1);
}

TEST_CASE("masks are grey PNG files of 8 bits, whose levels stay what they are") {
  const TemporaryFolder folder;
  write_grey(folder, "images/a.png", 2, {10, 20, 30, 40});
  const std::pair<int, int> kinds[] = {{16, 0}, {8, 2}};  // bits, colour type
  for (const auto& [bits, color] : kinds) {
    folder.write("masks/a.png",
                 png(2, 2, bits, color, Bytes(static_cast<std::size_t>(4 * (bits / 8) * (color == 2 ? 3 : 1)))));
    const auto dataset = image_masks(folder.path(), Split::train, 3, {.image_shape = {2, 2, 1}, .val_share = 0.01});
    CHECK(
        error_of<DataError>([&] { dataset->mask(0); }) ==
        folder.path() +
            "/masks/a.png: expected a mask as a grey PNG of 8 bits without alpha or palette, whose levels are classes");
  }
}

TEST_CASE("images without a mask, and masks of another size, are errors that name the file") {
  const TemporaryFolder folder;
  write_grey(folder, "images/a.png", 2, {10, 20, 30, 40});
  const auto dataset = [&] {
    return image_masks(folder.path(), Split::train, 3, {.image_shape = {2, 2, 1}, .val_share = 0.01});
  };
  CHECK(error_of<DataError>(dataset) ==
        folder.path() + "/images/a.png: expected its mask in " + folder.path() + "/masks/a.png, found none");
  write_grey(folder, "masks/a.png", 3, Bytes(9));
  CHECK(error_of<DataError>([&] { dataset()->mask(0); }) ==
        folder.path() +
            "/masks/a.png: expected 2x2 pixels (data.image_size), found 3x3; images with masks are not resized");
  CHECK(contains(error_of<DataError>([&] { image_masks(folder.path() + "/none", Split::train, 3, kTwo); }),
                 "cannot read the folder"));
}
