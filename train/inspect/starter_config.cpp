#include "train/inspect/starter_config.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "data/formats/image_files.h"
#include "train/config/keys.h"

namespace braid {

namespace {

/// The shorter sides of some images, in ascending order; those that cannot be read are left out.
std::vector<std::int64_t> sides_of(const ImageDataset& images) {
  constexpr std::int64_t kMost = 50;
  std::vector<std::int64_t> sides;
  const std::int64_t looked_at = std::min(images.size(), kMost);
  for (std::int64_t i = 0; i < looked_at; ++i) {
    try {
      const Shape shape = images.image(i * images.size() / looked_at).shape;
      sides.push_back(std::min(shape[0], shape[1]));
    } catch (const DataError&) {  // 'braid data' names it
    }
  }
  std::ranges::sort(sides);
  return sides;
}

/// The size to train with: one that is usual for networks, for images whose sides are these.
int image_size_for(const std::vector<std::int64_t>& sides) {
  const std::int64_t middle = sides.empty() ? 224 : sides[sides.size() / 2];
  return middle >= 160 ? 224 : middle >= 96 ? 128 : middle >= 48 ? 64 : 32;
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

}  // namespace

std::string starter_config(const std::string& folder) {
  for (const std::filesystem::path inside : {folder, folder + "/train"}) {
    const bool has_masks =
        std::filesystem::is_directory(inside / "images") && std::filesystem::is_directory(inside / "masks");
    BRAID_CHECK(!has_masks, DataError, inside.string(),
                ": has folders 'images' and 'masks': begin with "
                "configs/unet_shapes.yaml and `data: {name: image_masks, root: ",
                folder, "}`");
  }
  const auto images = image_folder(folder, Split::train, {});
  const auto validation = image_folder(folder, Split::val, {});
  const int size = image_size_for(sides_of(*images));
  const std::vector<std::string> classes = images->class_names();
  constexpr std::size_t kShown = 8;
  std::string list = comma_list(std::span(classes).first(std::min(kShown, classes.size())));
  if (classes.size() > kShown) list += ", ...";
  std::ranges::replace_if(
      list, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  const std::int64_t batch = std::clamp<std::int64_t>(images->size() / 16, 8, 64);
  return message(
      "# ", plural(images->size(), "training image"), " and ", plural(validation->size(), "validation image"), " of ",
      plural(classes.size(), "class", "es"), ": ", list,
      "\n"
      "# Look at them:  braid data FILE --sheet sheet.png\n"
      "# Train:         braid train FILE\n"
      "# All keys:      docs/configuration.md\n"
      "name: ",
      run_name(folder),
      "\n\n"
      "model:\n"
      "  name: resnet18  # or another of 'braid models'\n"
      "  # weights: resnet18.safetensors  # start from torchvision's weights: much better with few images\n\n"
      "data:\n"
      "  name: image_folder\n"
      "  root: ",
      to_yaml(KeyRule{}, KeyValue(folder)), "\n  image_size: ", size,
      "  # height and width that images are scaled to\n"
      "  workers: 2  # threads that decode\n"
      "  max_bad: 10  # unreadable images to pass over\n"
      "  augment:\n"
      "    random_resized_crop: true\n"
      "    flip: true  # left and right; turn it off for text or digits\n"
      "  normalize: {compute: true}\n\n"
      "train:\n"
      "  epochs: 30\n"
      "  batch_size: ",
      batch,
      "\n"
      "  label_smoothing: 0.1\n\n"
      "optimizer:\n"
      "  name: adamw\n"
      "  lr: 0.001\n"
      "  weight_decay: 0.05\n\n"
      "schedule:\n"
      "  name: one_cycle\n");
}

}  // namespace braid
