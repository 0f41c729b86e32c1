#include "train/inspect/starter_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "data/formats/image_files.h"
#include "train/config/keys.h"
#include "train/inspect/plan_report.h"

namespace braid {

namespace {

/// What some of the images show; those that cannot be read are left out.
struct Look {
  std::vector<std::int64_t> sides;  // the shorter ones, in ascending order
  bool has_alpha = false;
};

Look look_at(const ImageDataset& images) {
  constexpr std::int64_t kMost = 50;
  Look look;
  const std::int64_t looked_at = std::min(images.size(), kMost);
  for (std::int64_t i = 0; i < looked_at; ++i) {
    try {
      const Image image = images.image(i * images.size() / looked_at);
      look.sides.push_back(std::min(image.shape[0], image.shape[1]));
      look.has_alpha |= image.has_alpha;
    } catch (const DataError&) {  // 'braid data' names it
    }
  }
  std::ranges::sort(look.sides);
  return look;
}

/// Sizes that are usual for networks, and the shortest middle side of the images that they are for.
constexpr std::pair<int, int> kSizes[] = {{224, 160}, {128, 96}, {64, 48}, {32, 0}};

/// Letters and digits do not mean the same mirrored.
bool are_characters(const std::vector<std::string>& classes) {
  return std::ranges::all_of(classes, [](const std::string& name) {
    return utf8_length(name) == 1 || name.find_first_not_of("0123456789") == std::string::npos;
  });
}

/// How much a training computes.
struct Effort {
  double width = 1;
  int image_size = 0;
  std::int64_t epochs = 30;
};

std::string duration(double seconds) {
  if (seconds < 60) return "under a minute";
  const double minutes = seconds / 60;
  return minutes < 90 ? "about " + plural(std::llround(minutes), "minute")
                      : "about " + fixed(minutes / 60, 1) + " hours";
}

/// The folder's name, as the name of a run may be.
std::string run_name(const std::filesystem::path& folder) {
  std::string name = (std::filesystem::absolute(folder) / "").lexically_normal().parent_path().filename().string();
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return name.find_first_not_of("_-") == std::string::npos ? "images" : name;
}

class Starter {
 public:
  explicit Starter(const std::string& folder)
      : folder_(folder),
        images_(image_folder(folder, Split::train, {})),
        validation_(image_folder(folder, Split::val, {})),
        look_(look_at(*images_)) {}

  StarterConfig config() {
    const std::int64_t middle = look_.sides.empty() ? 224 : look_.sides[look_.sides.size() / 2];
    std::vector<int> sizes;
    for (const auto& [size, least] : kSizes) {
      if (middle >= least) sizes.push_back(size);
    }
    Effort effort;
    fit(effort, sizes);
    const std::string how_long = message(duration(seconds_), " on ", device_);
    const std::string width = effort.width == 1 ? "" : message(" of width ", effort.width);
    return {
        yaml(effort, message("# Takes ", how_long, ", as 'braid plan' predicts steps: ", fixed(seconds_, 0), " s.\n")),
        message("resnet18", width, " on ", effort.image_size, 'x', effort.image_size, " images for ", effort.epochs,
                " epochs, ", how_long, imbalance("\n", ": see train.class_weights in the config"))};
  }

 private:
  /// Seconds that a training on a CPU may take.
  static constexpr double kMostSeconds = 240;

  /// The first of the efforts, from large to small, that ends in time, which the largest does on a GPU; if none does,
  /// the smallest with fewer epochs.
  void fit(Effort& effort, const std::vector<int>& sizes) {
    for (const int size : sizes) {
      for (const double width : {1.0, 0.5, 0.25}) {
        effort.width = width;
        effort.image_size = size;
        predict(effort);
        if (device_.type != DeviceType::cpu || seconds_ <= kMostSeconds) return;
      }
    }
    constexpr std::int64_t kLeastEpochs = 3;
    const double epoch = seconds_ / static_cast<double>(effort.epochs);
    effort.epochs = std::max(kLeastEpochs, static_cast<std::int64_t>(kMostSeconds / epoch));
    seconds_ = static_cast<double>(effort.epochs) * epoch;
  }

  /// Notes how long the training takes, and where.
  void predict(const Effort& effort) {
    PlanRequest request;
    request.streams = {1};
    request.policy = "serial";
    const PlanReport report = report_plan(read_run_config(parse_config(yaml(effort, ""), "init")), request);
    const std::int64_t steps = effort.epochs * ((images_->size() + batch() - 1) / batch());
    seconds_ = 1e-6 * report.rows.front().makespan * static_cast<double>(steps);
    device_ = report.target.device;
  }

  std::int64_t batch() const { return std::clamp<std::int64_t>(images_->size() / 16, 8, 64); }

  std::string yaml(const Effort& effort, const std::string& how_long) const {
    const std::vector<std::string> classes = images_->class_names();
    constexpr std::size_t kShown = 8;
    std::string list = comma_list(std::span(classes).first(std::min(kShown, classes.size())));
    if (classes.size() > kShown) list += ", ...";
    std::ranges::replace_if(
        list, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    const bool characters = are_characters(classes);
    return message(
        "# ", plural(images_->size(), "training image"), " and ", plural(validation_->size(), "validation image"),
        " of ", plural(classes.size(), "class", "es"), ": ", list, "\n", how_long,
        "# Look at them:  braid data FILE --sheet sheet.png\n"
        "# Train:         braid train FILE\n"
        "# All keys:      docs/configuration.md\n"
        "name: ",
        run_name(folder_),
        "\n\n"
        "model:\n"
        "  name: resnet18  # or another of 'braid models'\n",
        effort.width == 1 ? ""
                          : message("  width: ", effort.width, "  # of the channels; 1, as in torchvision, computes ",
                                    1 / (effort.width * effort.width), " times as much\n"),
        "  # weights: resnet18.safetensors  # start from torchvision's weights, with width 1: much better "
        "with few images\n\n"
        "data:\n"
        "  name: image_folder\n"
        "  root: ",
        to_yaml(KeyRule{}, KeyValue(folder_)), "\n  image_size: ", effort.image_size,
        "  # height and width that images are scaled to\n"
        "  workers: 2  # threads that decode\n"
        "  max_bad: 10  # unreadable images to pass over\n",
        look_.has_alpha ? "  background: [1, 1, 1]  # white, where images are transparent\n" : "",
        characters ? "  crop_pct: 1  # all of a character\n" : "",
        "  augment:\n"
        "    random_resized_crop: true\n",
        characters ? "    scale: [0.7, 1]  # most of a character\n"
                     "    flip: false  # mirrored characters are others\n"
                   : "    flip: true  # left and right; turn it off for text or digits\n",
        "  normalize: {compute: true}\n\n"
        "train:\n"
        "  epochs: ",
        effort.epochs, "\n  batch_size: ", batch(),
        "\n"
        "  label_smoothing: 0.1\n",
        imbalance(
            "  # class_weights: balanced  # rare classes count as much, or with data.sampler: balanced come as often: ",
            "\n"),
        "\n"
        "optimizer:\n"
        "  name: adamw\n"
        "  lr: 0.001\n"
        "  weight_decay: 0.05\n\n"
        "schedule:\n"
        "  name: one_cycle\n");
  }

  /// A remark, after one text and before another, if a class has many times as many images as another.
  std::string imbalance(std::string_view before, std::string_view after) const {
    constexpr double kMany = 3;
    std::vector<std::int64_t> images(images_->class_names().size());
    for (const int label : images_->labels()) ++images[static_cast<std::size_t>(label)];
    const auto [fewest, most] = std::ranges::minmax(images);
    const double ratio = static_cast<double>(most) / static_cast<double>(fewest);
    if (ratio < kMany) return "";
    return message(before, "one class has ", fixed(ratio, 0), " times the images of another", after);
  }

  const std::string folder_;
  const std::shared_ptr<const ImageDataset> images_, validation_;
  const Look look_;
  double seconds_ = 0;
  Device device_;
};

}  // namespace

StarterConfig starter_config(const std::string& folder) {
  for (const std::filesystem::path inside : {folder, folder + "/train"}) {
    const bool has_masks =
        std::filesystem::is_directory(inside / "images") && std::filesystem::is_directory(inside / "masks");
    BRAID_CHECK(!has_masks, DataError, inside.string(),
                ": has folders 'images' and 'masks': begin with "
                "configs/unet_shapes.yaml and `data: {name: image_masks, root: ",
                folder, "}`");
  }
  return Starter(folder).config();
}

}  // namespace braid
