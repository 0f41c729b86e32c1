#include "data/formats/image_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/error.h"
#include "data/class_subset.h"
#include "data/loader/loader.h"
#include "tests/data/images.h"

using namespace braid;
using namespace braid::testing;

namespace {

namespace fs = std::filesystem;

const ImageFilesOptions kSmall{.image_shape = {4, 4, 3}};

/// Writes a plain image whose size and value name it.
void write_image(const TemporaryFolder& folder, const std::string& name, int side, std::uint8_t value) {
  const Bytes pixels(static_cast<std::size_t>(side * side), value);
  folder.write(name, name.ends_with(".png") ? png(side, side, 8, 0, pixels) : jpeg(side, side, 1, pixels));
}

void write_text(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  folder.write(name, Bytes(text.begin(), text.end()));
}

/// The value of each image, with its class.
std::multimap<int, std::string> content(const ImageDataset& dataset) {
  std::multimap<int, std::string> list;
  const std::vector<std::string> names = dataset.class_names();
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    list.emplace(dataset.image(i).pixels[0], names[static_cast<std::size_t>(dataset.label(i))]);
  }
  return list;
}

using Content = std::multimap<int, std::string>;

/// Two classes of ten images each.
void write_two_classes(const TemporaryFolder& folder, const std::string& inside = "") {
  for (int i = 0; i < 10; ++i) {
    write_image(folder, inside + "dog/" + std::to_string(i) + ".png", 2 + i, static_cast<std::uint8_t>(i));
    write_image(folder, inside + "cat/" + std::to_string(i) + ".png", 3, static_cast<std::uint8_t>(100 + i));
  }
}

std::string folder_error(const TemporaryFolder& folder, Split split = Split::train) {
  return error_of<DataError>([&] { image_folder(folder.path(), split, kSmall); });
}

}  // namespace

TEST_CASE("folders are classes, sorted by name; subfolders belong to them, and other files do not") {
  const TemporaryFolder folder;
  write_image(folder, "train/b/x.PNG.png", 3, 1);
  write_image(folder, "train/b/deep/er/y.JPEG", 8, 2);
  write_image(folder, "train/Ärger ☃/z.jpg", 8, 3);
  write_image(folder, "train/a/1.png", 3, 4);
  write_image(folder, "train/.git/no.png", 3, 5);
  write_image(folder, "train/a/._1.png", 3, 6);
  write_text(folder, "train/a/notes.txt", "x");
  write_text(folder, "train/list.csv", "x");
  write_image(folder, "val/b/9.png", 3, 9);
  const auto train = image_folder(folder.path(), Split::train, kSmall);
  CHECK(train->class_names() == std::vector<std::string>{"a", "b", "Ärger ☃"});
  CHECK(content(*train) == Content{{1, "b"}, {2, "b"}, {3, "Ärger ☃"}, {4, "a"}});
  const auto test = image_folder(folder.path(), Split::val, kSmall);
  CHECK(test->class_names() == train->class_names());
  CHECK(content(*test) == Content{{9, "b"}});
  CHECK(train->image_shape() == Shape{4, 4, 3});
  CHECK(train->image(0).shape == Shape{3, 3, 3});
  CHECK(image_folder(folder.path(), Split::train, {.image_shape = {4, 4, 1}})->image(0).shape == Shape{3, 3, 1});
}

TEST_CASE("without folders of their own, names decide which images validate and test, and new ones move no other") {
  for (const std::string inside : {"", "train/"}) {
    const TemporaryFolder folder;
    write_two_classes(folder, inside);
    ImageFilesOptions options = kSmall;
    options.val_share = 0.3;
    options.test_share = 0.2;
    const auto part = [&](Split split) { return content(*image_folder(folder.path(), split, options)); };
    const Content train = part(Split::train), val = part(Split::val), test = part(Split::test);
    CHECK(val.size() == 5);
    CHECK(test.size() == 3);
    Content all = train;
    for (const Content& others : {val, test}) all.insert(others.begin(), others.end());
    CHECK(std::set<Content::value_type>(all.begin(), all.end()).size() == 20);

    for (int i = 10; i < 60; ++i) {
      write_image(folder, inside + "cat/" + std::to_string(i) + ".png", 3, static_cast<std::uint8_t>(100 + i));
    }
    const Content more = part(Split::val);
    CHECK(std::ranges::includes(more, val));
    CHECK(std::ranges::includes(part(Split::test), test));
    CHECK(std::ranges::includes(part(Split::train), train));
    CHECK(more.size() > 10);
    CHECK(more.size() < 35);  // of 70 images, the mean is 21, the standard deviation 4

    options.split_seed = 1;
    CHECK(part(Split::val) != more);
  }
}

TEST_CASE("the folders of a split have the names that people give them, in any case") {
  struct Case {
    std::string train, other;
    Split split;
  };
  for (const auto& [train, other, split] : {Case{"Train/", "Test/", Split::test},
                                            {"Training/", "Testing/", Split::test},
                                            {"TRAIN/", "VAL/", Split::val},
                                            {"training_set/", "test_set/", Split::test},
                                            {"train/", "valid/", Split::val},
                                            {"train/", "dev/", Split::val}}) {
    CAPTURE(train);
    const TemporaryFolder folder;
    write_two_classes(folder, train);
    write_image(folder, other + "dog/9.png", 3, 9);
    const auto size = [&](Split of) { return image_folder(folder.path(), of, kSmall)->size(); };
    CHECK(content(*image_folder(folder.path(), split, kSmall)) == Content{{9, "dog"}});
    if (split == Split::val) {
      CHECK(size(Split::train) == 20);
      CHECK(
          contains(folder_error(folder, Split::test), "the test set is empty: data.test_share = 0 leaves it no image"));
    } else {  // training does not see the test set, not even to validate
      CHECK(size(Split::train) + size(Split::val) == 20);
      CHECK(size(Split::val) > 0);
      write_image(folder, "Validation/cat/8.png", 3, 8);
      CHECK(content(*image_folder(folder.path(), Split::val, kSmall)) == Content{{8, "cat"}});
      CHECK(size(Split::train) == 20);
    }
  }
  const TemporaryFolder folder;
  write_two_classes(folder, "train/");
  write_two_classes(folder, "holdout/");
  CHECK(contains(folder_error(folder),
                 "/train: expected a folder with the validation set next to it, called val, valid,"));
  CHECK(contains(folder_error(folder), "found 'holdout'"));
}

TEST_CASE("a fingerprint tells images from others, wherever they lie") {
  const auto fingerprint = [](auto change) {
    const TemporaryFolder folder;
    write_two_classes(folder);
    change(folder);
    const auto images = image_folder(folder.path(), Split::train, {.image_shape = {4, 4, 3}, .val_share = 0});
    CHECK(ClassSubset(images, {1, 0}).fingerprint() != images->fingerprint());
    return images->fingerprint();
  };
  const auto rename = [](const char* from, const char* to) {
    return [from, to](const TemporaryFolder& folder) { fs::rename(folder.path() + from, folder.path() + to); };
  };
  const Hash first = fingerprint([](const TemporaryFolder&) {});
  CHECK(fingerprint([](const TemporaryFolder&) {}) == first);
  CHECK(fingerprint(rename("/cat", "/cats")) != first);
  CHECK(fingerprint(rename("/cat/3.png", "/cat/33.png")) != first);
  CHECK(fingerprint(rename("/cat/3.png", "/dog/33.png")) != first);
  CHECK(fingerprint([](const TemporaryFolder& folder) { write_image(folder, "cat/3.png", 200, 103); }) != first);
}

TEST_CASE("folders that cannot be trained with are errors that say what is missing") {
  const TemporaryFolder folder;
  CHECK(contains(folder_error(folder), folder.path() + ": expected at least two classes, got none"));
  CHECK(contains(error_of<DataError>([&] { image_folder(folder.path() + "/no", Split::train, kSmall); }),
                 "cannot read the folder: No such file or directory"));
  write_image(folder, "only/1.png", 3, 1);
  CHECK(contains(folder_error(folder), "expected at least two classes, got only 'only'"));
  fs::create_directory(folder.path() + "/second");
  CHECK(contains(folder_error(folder), "second: expected images (.jpg, .jpeg, .png), found none"));
  write_image(folder, "second/1.png", 3, 1);
  CHECK(folder_error(folder).empty());
  ImageFilesOptions few = kSmall;
  few.val_share = 1e-9;
  CHECK(contains(error_of<DataError>([&] { image_folder(folder.path(), Split::val, few); }),
                 "the validation set is empty: data.val_share = 1e-09 leaves it no image"));
  ImageFilesOptions all = kSmall;
  all.val_share = 1;
  CHECK(contains(error_of<DataError>([&] { image_folder(folder.path(), Split::train, all); }),
                 "the training set is empty: data.val_share = 1"));
  write_image(folder, "caf\xe9/1.png", 3, 1);
  CHECK(contains(folder_error(folder), "expected UTF-8 text as the name of a class, found byte 233 at its position 4"));
  const TemporaryFolder split;
  write_two_classes(split, "train/");
  fs::create_directories(split.path() + "/test/dog");
  CHECK(contains(folder_error(split, Split::test), "test: the test set is empty"));
  write_image(split, "test/bird/1.png", 3, 1);
  CHECK(contains(folder_error(split, Split::test), "bird: the training set in " + split.path() + "/train has no such"));
}

TEST_CASE("links to folders are followed; one that leads nowhere, or in a circle, is an error") {
  const TemporaryFolder folder, elsewhere;
  write_two_classes(folder);
  write_image(elsewhere, "1.png", 3, 50);
  fs::create_directory_symlink(elsewhere.path(), folder.path() + "/dog/more");
  CHECK(image_folder(folder.path(), Split::train, {.image_shape = {4, 4, 3}, .val_share = 0})->size() == 21);
  fs::create_directory_symlink(folder.path() + "/dog", folder.path() + "/dog/again");
  CHECK(contains(folder_error(folder), "/dog/again: this link leads to a folder that it lies in, "));
  fs::remove(folder.path() + "/dog/again");
  fs::create_directory_symlink(elsewhere.path() + "/none", folder.path() + "/bird");
  CHECK(contains(folder_error(folder), "/bird: this link leads nowhere: No such file or directory"));
}

TEST_CASE("a list names files and classes") {
  const TemporaryFolder folder;
  write_image(folder, "images/a,b.png", 3, 1);
  write_image(folder, "images/q\"q.png", 3, 2);
  write_image(folder, "images/ü.png", 3, 3);
  write_text(folder, "train.csv",
             "\xef\xbb\xbfpath,label\r\n\"images/a,b.png\", dog\t\r\n\"images/q\"\"q.png\",\"big, cat\"\r\n\r\n" +
                 folder.path() + "/images/ü.png,dog");
  write_text(folder, "test.csv", "ü.png,dog\n");
  const std::string train = folder.path() + "/train.csv", test = folder.path() + "/test.csv";
  const auto images =
      image_list(train, "", test, "", Split::train, {.image_shape = kSmall.image_shape, .val_share = 0});
  CHECK(images->class_names() == std::vector<std::string>{"big, cat", "dog"});
  CHECK(content(*images) == Content{{1, "dog"}, {2, "big, cat"}, {3, "dog"}});
  CHECK(content(*image_list(train, "", test, folder.path() + "/images", Split::test, kSmall)) == Content{{3, "dog"}});
}

TEST_CASE("labels of a list that are numbers keep their order as numbers") {
  const TemporaryFolder folder;
  std::string text;
  for (const std::string label : {"10", "2", "0"}) {
    for (int i = 0; i < 5; ++i) {
      const std::string name = label + "-" + std::to_string(i) + ".png";
      write_image(folder, name, 3, static_cast<std::uint8_t>(i));
      text.append(name).append(",").append(label).append("\n");
    }
  }
  write_text(folder, "all.csv", text);
  const auto train = image_list(folder.path() + "/all.csv", "", "", "", Split::train, kSmall);
  CHECK(train->class_names() == std::vector<std::string>{"0", "2", "10"});
  CHECK(train->size() == 11);
  CHECK(image_list(folder.path() + "/all.csv", "", "", "", Split::val, kSmall)->size() == 4);
}

TEST_CASE("a malformed list is an error that names the line") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text, const std::string& test = "") {
    write_text(folder, "x.csv", text);
    write_text(folder, "y.csv", test);
    return error_of<DataError>([&] {
      image_list(folder.path() + "/x.csv", test.empty() ? "" : folder.path() + "/y.csv", "", "",
                 test.empty() ? Split::train : Split::val, kSmall);
    });
  };
  CHECK(contains(error("a.png,x\nb.png\n"), "x.csv:2: expected path,label, got 'b.png'"));
  CHECK(contains(error("a.png,x,y\n"), "x.csv:1: expected path,label"));
  CHECK(contains(error("a.png,x\n\"b.png,y\n"), "x.csv:2: expected path,label"));
  CHECK(contains(error("\"a\"b.png,x\n"), "x.csv:1: expected path,label"));
  CHECK(contains(error("a.png,x\n,y\n"), "x.csv:2: expected path,label"));
  CHECK(contains(error("a.png,x\nb.png,\xff\n"), "x.csv:2: expected UTF-8 text as the name of a class"));
  CHECK(contains(error(""), "expected at least two classes, got none"));
  CHECK(contains(error("a.png,x\nb.png,y\n", "c.png,x\nd.png,z\n"), "y.csv:2: "));
  CHECK(contains(error("a.png,x\nb.png,y\n", "path,label\n"), "y.csv: the validation set is empty"));
}

TEST_CASE("damaged and vanished files are passed over, and named when there are too many") {
  const TemporaryFolder folder;
  write_two_classes(folder, "train/");
  write_two_classes(folder, "val/");
  const auto train = image_folder(folder.path(), Split::train, kSmall);
  fs::remove(folder.path() + "/train/cat/3.png");
  folder.write("train/dog/7.png", {1, 2, 3});
  for (const int workers : {0, 2}) {
    Loader tolerant(train, {.batch_size = 6, .workers = workers, .max_bad = 2});
    std::int64_t images = 0;
    for (const Batch& batch : tolerant) images += batch.size();
    CHECK(images == 20);
    CHECK(tolerant.bad().size() == 2);
    Loader strict(train, {.batch_size = 6, .workers = workers, .max_bad = 1});
    const std::string error = error_of<DataError>([&] {
      for (Batch batch; strict.next(batch);) continue;
    });
    CHECK(contains(error, "2 images of image_folder cannot be read, more than data.max_bad = 1"));
    CHECK(contains(error, "train/cat/3.png: cannot read the image: No such file"));
    CHECK(contains(error, "train/dog/7.png: not a PNG or JPEG image"));
  }
}
