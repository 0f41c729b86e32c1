#include "data/formats/image_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "core/base/read_file.h"
#include "core/text/text.h"
#include "data/formats/image_file.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

struct LabelledFile {
  std::string path, name;  // the name does not change when the data set moves
  int label;
  std::string mask = {};  // the file with the labels of the pixels, if they have some
};

/// The images that a source lists.
struct Listing {
  std::string name;
  std::vector<std::string> classes;
  std::vector<LabelledFile> files;
  bool has_masks = false;
};

class ImageFiles final : public ImageDataset {
 public:
  ImageFiles(Listing listing, const ImageFilesOptions& options)
      : listing_(std::move(listing)), image_shape_(options.image_shape), background_(options.background) {}

  std::int64_t size() const override { return std::ssize(listing_.files); }
  Shape image_shape() const override { return image_shape_; }
  int classes() const override { return static_cast<int>(listing_.classes.size()); }
  std::vector<std::string> class_names() const override { return listing_.classes; }
  std::string name() const override { return listing_.name; }
  std::string file_of(std::int64_t index) const override { return at(index).path; }
  Image image(std::int64_t index) const override {
    const std::string& path = at(index).path;
    return checked(decode_image(content_of(path), path, static_cast<int>(image_shape_[2]), background_), path);
  }
  int label(std::int64_t index) const override { return has_masks() ? ImageDataset::label(index) : at(index).label; }
  bool has_masks() const override { return listing_.has_masks; }
  Hash fingerprint() const override {
    Hash hash = ImageDataset::fingerprint();
    for (const LabelledFile& file : listing_.files) {
      for (const fs::path path : {file.path, file.mask}) {
        std::error_code missing;
        hash.add(path.filename().string()).add(static_cast<std::uint64_t>(fs::file_size(path, missing)));
      }
    }
    return hash;
  }
  Image mask(std::int64_t index) const override {
    if (!has_masks()) return ImageDataset::mask(index);
    const std::string& path = at(index).mask;
    const Image mask = checked(decode_mask(content_of(path), path), path);
    for (const int label : mask.pixels) {
      BRAID_CHECK(label < classes(), DataError, path, ": expected labels 0 to ", classes() - 1,
                  " (data.classes), found ", label);
    }
    return mask;
  }

 private:
  static std::string content_of(const std::string& path) { return read_file(path, "the image", kMaxImageBytes); }
  Image checked(const Image& image, const std::string& path) const {
    const bool fits = image.shape[0] == image_shape_[0] && image.shape[1] == image_shape_[1];
    BRAID_CHECK(!has_masks() || fits, DataError, path, ": expected ", image_shape_[0], 'x', image_shape_[1],
                " pixels (data.image_size), found ", image.shape[0], 'x', image.shape[1],
                "; images with masks are not resized");
    return image;
  }
  const LabelledFile& at(std::int64_t index) const {
    check_index(index);
    return listing_.files[static_cast<std::size_t>(index)];
  }

  Listing listing_;
  Shape image_shape_;
  std::vector<double> background_;
};

/// Where the images of a split are: a folder or a list each. The validation and the test set may lack one, and are then
/// a share of the training images.
struct Sources {
  std::string train, val, test;

  bool has(Split split) const { return split == Split::train || !(split == Split::val ? val : test).empty(); }
  const std::string& of(Split split) const {
    return !has(split) || split == Split::train ? train : split == Split::val ? val : test;
  }
};

/// Which part of the training images a file belongs to. Its name and the seed alone decide, so that files added later
/// move no other file.
Split part_of(const LabelledFile& file, const Sources& sources, const ImageFilesOptions& options) {
  constexpr double kHashes = 0x1p64;
  const double at = static_cast<double>(Hash().add(options.split_seed).add(file.name).low) / kHashes;
  if (!sources.has(Split::val) && at < options.val_share) return Split::val;
  return !sources.has(Split::test) && at >= 1 - options.test_share ? Split::test : Split::train;
}

std::shared_ptr<const ImageDataset> make(Listing listing, const Sources& sources, Split split,
                                         const ImageFilesOptions& options) {
  const std::string& source = sources.of(split);
  BRAID_CHECK(listing.classes.size() >= 2 || listing.has_masks, DataError, source,
              ": expected at least two classes, got ",
              listing.classes.empty() ? "none" : "only '" + listing.classes.front() + "'",
              "; each class has a folder, or a label in a list");
  if (source == sources.train) {
    std::erase_if(listing.files, [&](const LabelledFile& file) { return part_of(file, sources, options) != split; });
  }
  const bool tests = split == Split::test;
  std::string why;
  if (!sources.has(tests ? Split::test : Split::val)) {
    why = message(": data.", tests ? "test" : "val", "_share = ", tests ? options.test_share : options.val_share,
                  " leaves it no image");
  }
  BRAID_CHECK(!listing.files.empty(), DataError, source, ": the ", to_string(split), " set is empty", why);
  return std::make_shared<ImageFiles>(std::move(listing), options);
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::string lowercase(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

bool is_image(const fs::path& path) {
  const std::string ending = lowercase(path.extension().string());
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// Throws DataError for a broken link, or a link to a folder that contains it, which would never end.
void check_link(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_symlink(error)) return;
  const fs::path target = fs::canonical(entry.path(), error);
  BRAID_CHECK(!error, DataError, entry.path().string(), ": this link leads nowhere: ", error.message());
  const fs::path around = fs::canonical(entry.path().parent_path(), error);
  const bool is_loop = std::ranges::mismatch(target, around).in1 == target.end();
  BRAID_CHECK(!is_loop, DataError, entry.path().string(), ": this link leads to a folder that it lies in, ",
              target.string());
}

/// Throws DataError for a name that JSON, ONNX files and pages could not hold, with its source.
void check_class_name(const std::string& name, const std::string& source) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t bytes = utf8_character_bytes(std::string_view(name).substr(at));
    BRAID_CHECK(bytes > 0, DataError, source, ": expected UTF-8 text as the name of a class, found byte ",
                static_cast<int>(static_cast<unsigned char>(name[at])), " at its position ", at + 1);
    at += bytes;
  }
}

/// The folders in a folder, sorted by name.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_hidden(it->path())) continue;
    check_link(*it);
    if (it->is_directory()) folders.push_back(it->path());
  }
  BRAID_CHECK(!error, DataError, folder.string(), ": cannot read the folder: ", error.message());
  std::ranges::sort(folders);
  return folders;
}

/// The images in a folder and the folders in it, sorted by path.
std::vector<std::string> images_in(const fs::path& folder) {
  std::vector<std::string> images;
  std::error_code error;
  const auto follow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(folder, follow, error), end; !error && it != end; it.increment(error)) {
    if (is_hidden(it->path())) {
      it.disable_recursion_pending();
      continue;
    }
    if (!is_image(it->path())) check_link(*it);  // a deleted file is skipped later
    if (is_image(it->path()) && !it->is_directory()) images.push_back(it->path().string());
  }
  BRAID_CHECK(!error, DataError, folder.string(), ": cannot read the folder: ", error.message());
  std::ranges::sort(images);
  return images;
}

std::string name_in(const fs::path& folder, const fs::path& file) {
  return file.lexically_relative(folder).generic_string();
}

/// Usual names of the folders of a split, in any case.
const std::vector<std::string> kTrainNames = {"train", "training", "train_set", "training_set"};
const std::vector<std::string> kValNames = {"val", "valid", "validation", "eval", "evaluation", "dev"};
const std::vector<std::string> kTestNames = {"test", "testing", "test_set", "testing_set"};

/// The first of these folders that exists; empty if none does.
std::string first_of(const std::vector<fs::path>& folders, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const fs::path& folder : folders) {
      if (lowercase(folder.filename().string()) == name) return folder.string();
    }
  }
  return {};
}

Sources folders_of(const std::string& root) {
  const std::vector<fs::path> folders = folders_in(root);
  const Sources named{first_of(folders, kTrainNames), first_of(folders, kValNames), first_of(folders, kTestNames)};
  if (named.train.empty()) return {.train = root, .val = {}, .test = {}};
  const fs::path& other = folders[folders[0] == named.train && folders.size() > 1 ? 1 : 0];
  BRAID_CHECK(!named.val.empty() || !named.test.empty() || folders.size() == 1, DataError, named.train,
              ": expected a folder with the validation set next to it, called ", comma_list(kValNames),
              ", or one with the test set, called ", comma_list(kTestNames), "; found '", other.filename().string(),
              "'");
  return named;
}

/// The fields of a line of CSV (RFC 4180). False if a quote is not closed, or text surrounds quotes.
bool split_line(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  for (std::size_t at = 0;; ++at) {
    std::string& field = fields.emplace_back();
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) return false;
        if (line[at] == '"' && (at + 1 >= line.size() || line[at + 1] != '"')) break;
        if (line[at] == '"') ++at;
        field += line[at];
      }
      ++at;
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      field = line.substr(at, end - at);
      at = end;
    }
    if (at >= line.size()) return true;
    if (line[at] != ',') return false;
  }
}

/// The text without blanks at its ends: labels that differ only in these are the same class.
std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

struct ListedImage {
  std::string path, name, label;
  std::size_t line;
};

std::vector<ListedImage> read_list(const std::string& file, const std::string& root) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  const std::string content = read_file(file, "the list of images", kMaxImageBytes);
  const fs::path folder = root.empty() ? fs::path(file).parent_path() : fs::path(root);
  std::vector<ListedImage> images;
  std::vector<std::string> fields;
  std::size_t number = 0;
  const std::size_t begin = content.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  for (std::string& line : split_text(std::string_view(content).substr(begin), '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    if (line.empty()) continue;
    const bool is_split = split_line(line, fields) && fields.size() == 2;
    if (is_split) fields[1] = trimmed(fields[1]);
    BRAID_CHECK(is_split && !fields[0].empty() && !fields[1].empty(), DataError, file, ':', number,
                ": expected path,label, got '", shortened(line, 80), "'");
    if (number == 1 && !is_image(fields[0])) continue;  // names of columns
    check_class_name(fields[1], message(file, ':', number));
    images.push_back({(folder / fields[0]).string(), fields[0], fields[1], number});
  }
  return images;
}

/// The different labels, sorted by number if all are numbers, else by name.
std::vector<std::string> classes_of(const std::vector<ListedImage>& images) {
  std::vector<std::string> classes;
  std::vector<std::pair<std::int64_t, std::string>> numbers;
  for (const ListedImage& image : images) classes.push_back(image.label);
  std::ranges::sort(classes);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  for (const std::string& label : classes) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (error != std::errc{} || end != label.data() + label.size()) return classes;
    numbers.emplace_back(number, label);
  }
  std::ranges::sort(numbers);
  std::ranges::transform(numbers, classes.begin(), [](const auto& number) { return number.second; });
  return classes;
}

}  // namespace

std::shared_ptr<const ImageDataset> image_folder(const std::string& root, Split split,
                                                 const ImageFilesOptions& options) {
  const Sources sources = folders_of(root);
  const std::string &folder = sources.train, &own = sources.of(split);
  Listing listing{"image_folder", {}, {}};
  std::map<std::string, int> labels;
  for (const fs::path& of_class : folders_in(folder)) {
    const std::string& name = listing.classes.emplace_back(of_class.filename().string());
    check_class_name(name, of_class.string());
    labels.emplace(name, static_cast<int>(labels.size()));
  }
  for (const fs::path& of_class : folders_in(own)) {
    const auto label = labels.find(of_class.filename().string());
    BRAID_CHECK(label != labels.end(), DataError, of_class.string(), ": the training set in ", folder,
                " has no such class");
    const std::vector<std::string> images = images_in(of_class);
    BRAID_CHECK(!images.empty() || own != folder, DataError, of_class.string(),
                ": expected images (.jpg, .jpeg, .png), found none");
    for (const std::string& image : images) listing.files.push_back({image, name_in(own, image), label->second});
  }
  return make(std::move(listing), sources, split, options);
}

bool has_test_folder(const std::string& root) { return !folders_of(root).test.empty(); }

std::shared_ptr<const ImageDataset> image_masks(const std::string& root, Split split, int classes,
                                                const ImageFilesOptions& options) {
  const Sources sources = folders_of(root);
  const fs::path folder = sources.of(split);
  Listing listing{.name = "image_masks", .classes = {}, .files = {}, .has_masks = true};
  for (int i = 0; i < classes; ++i) listing.classes.push_back(std::to_string(i));
  for (const std::string& image : images_in(folder / "images")) {
    const std::string name = name_in(folder / "images", image);
    const fs::path mask = (folder / "masks" / name).replace_extension(".png");
    std::error_code ignored;
    BRAID_CHECK(fs::is_regular_file(mask, ignored), DataError, image, ": expected its mask in ", mask.string(),
                ", found none");
    listing.files.push_back({image, name, 0, mask.string()});
  }
  return make(std::move(listing), sources, split, options);
}

std::shared_ptr<const ImageDataset> image_list(const std::string& file, const std::string& val_file,
                                               const std::string& test_file, const std::string& root, Split split,
                                               const ImageFilesOptions& options) {
  const Sources sources{file, val_file, test_file};
  const std::vector<ListedImage> of_training = read_list(file, root);
  Listing listing{"csv", classes_of(of_training), {}};
  std::map<std::string, int> labels;
  for (const std::string& label : listing.classes) labels.emplace(label, static_cast<int>(labels.size()));
  const std::string& source = sources.of(split);
  for (const ListedImage& image : source == file ? of_training : read_list(source, root)) {
    const auto label = labels.find(image.label);
    BRAID_CHECK(label != labels.end(), DataError, source, ':', image.line, ": ", file, " has no class '", image.label,
                "'");
    listing.files.push_back({image.path, image.name, label->second});
  }
  return make(std::move(listing), sources, split, options);
}

}  // namespace braid
