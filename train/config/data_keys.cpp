// The keys of the section "data".

#include <algorithm>
#include <set>

#include "train/config/config.h"

namespace braid {

namespace {

void declare_augment(const Keys& keys, TransformOptions& changes, MixingOptions& mixing) {
  ColorJitter& jitter = changes.color_jitter;
  keys("crop_padding", changes.crop_padding, {.min = 0, .max = 64, .unit = "pixels"},
       "pads each side of a training image by this much, then takes a random crop of the original size");
  keys("flip", changes.flip, {.synonyms = {"hflip", "mirror", "horizontal_flip"}}, "mirrors training images at random");
  keys("salt_and_pepper", changes.salt_and_pepper, {.min = 0, .max = 1},
       "share of a training image's pixels that turn black or white; redrawn in every epoch");
  keys("random_resized_crop", changes.random_resized_crop, {.synonyms = {"rrc", "randomresizedcrop"}},
       "shows a random part of a training image, scaled to the size of the batch");
  std::vector<double> scale(changes.scale.begin(), changes.scale.end());
  std::vector<double> ratio(changes.ratio.begin(), changes.ratio.end());
  keys("scale", scale, {.above = 0, .max = 1, .min_items = 2, .max_items = 2},
       "smallest and largest area of that part, as a share of the image");
  keys("ratio", ratio, {.above = 0, .max = 100, .min_items = 2, .max_items = 2},
       "smallest and largest width over height of that part");
  for (const auto& [key, range] : {std::pair("scale", &scale), std::pair("ratio", &ratio)}) {
    keys.check(key, (*range)[0] <= (*range)[1], "expected the smaller number first");
  }
  std::ranges::copy(scale, changes.scale.begin());
  std::ranges::copy(ratio, changes.ratio.begin());
  keys("brightness", jitter.brightness, {.min = 0, .max = 10, .synonyms = {"color_jitter"}},
       "0.4 multiplies the pixels of a training image by 0.6 to 1.4");
  keys("contrast", jitter.contrast, {.min = 0, .max = 10},
       "0.4 multiplies the distance of pixels from the image's mean likewise");
  keys("saturation", jitter.saturation, {.min = 0, .max = 10},
       "0.4 multiplies the distance of colours from grey likewise");
  keys("hue", jitter.hue, {.min = 0, .max = 0.5},
       "0.1 turns colours by up to a tenth of the circle of hues, either way");
  keys("random_erasing", changes.random_erasing, {.min = 0, .max = 1, .synonyms = {"reprob", "random_erase", "cutout"}},
       "probability that a rectangle of a training image is replaced by the mean");
  keys("mixup", mixing.mixup_alpha, {.min = 0, .max = 100, .synonyms = {"mixup_alpha"}},
       "mixes training images and labels in pairs, in a ratio drawn from Beta(α, α), one per batch; 0: never");
  keys("cutmix", mixing.cutmix_alpha, {.min = 0, .max = 100, .synonyms = {"cutmix_alpha"}},
       "exchanges rectangles of such an area in pairs instead; with both, each batch takes one of the two");
  keys("mixup_prob", mixing.probability, {.min = 0, .max = 1, .synonyms = {"mix_prob", "cutmix_prob"}},
       "probability that a batch is mixed, if `mixup` or `cutmix` is set");
}

}  // namespace

void DataConfig::declare(const Keys& keys) {
  keys("name", name, {.words = dataset_names(), .required = true},
       "`braid datasets` describes them; `synthetic` needs no files: a pattern for each class plus noise");
  const bool list = name == "csv";
  if (is_synthetic()) {
    keys("size", size, {.min = 1, .max = 1e7}, "training images");
    keys("val_size", val_size, {.min = 1, .max = 1e7, .synonyms = {"test_size"}}, "validation images, and test images");
  } else {
    keys("root", root, {.path = true, .synonyms = {"data_dir", "data_path", "train_dir"}},
         "folder of the files. `fashion_mnist`: empty is `/usr/share/datasets/fashion-mnist`. `image_folder`: it holds "
         "a folder for each class, or such folders in `train`, `val` and `test`. `image_masks`: it holds `images` and "
         "`masks`, or `train`, `val` and `test` do. `csv`: where relative paths begin; empty: where the list is");
    keys.check("root", !root.empty() || name == "fashion_mnist" || list,
               "expected the folder of the files, got nothing");
  }
  if (list) {
    keys("file", file, {.path = true, .synonyms = {"csv", "train_file", "train_csv", "annotations"}},
         "list of images, a line of path,label each");
    keys.check("file", !file.empty(), "expected the list of images, got nothing");
    keys("val_file", val_file, {.path = true, .synonyms = {"val_csv", "valid_file"}},
         "list of validation images; empty: see `val_share`");
    keys("test_file", test_file, {.path = true, .synonyms = {"test_csv"}},
         "list of images for `braid eval --split test`; empty: see `test_share`");
  }
  if (is_synthetic() || has_files()) {
    if (image_size == 0) image_size = has_files() ? 224 : 32;
    keys("image_size", image_size,
         {.min = 1, .max = 1024, .unit = "pixels", .synonyms = {"img_size", "input_size", "crop_size"}},
         "height and width of the images in a batch");
    keys("channels", channels, {.min = 1, .max = 64},
         "channels of an image; files: 3 (RGB) or 1 (grey). The other datasets have their own size");
    keys.check("channels", is_synthetic() || channels == 1 || channels == 3, "expected 1 or 3");
  }
  if (is_synthetic() || has_masks()) {
    if (name == "shapes" && classes > kMaxShapeClasses) classes = kMaxShapeClasses;
    const double most = name == "shapes" ? kMaxShapeClasses : name == "image_masks" ? 256 : kMaxSyntheticClasses;
    keys("classes", classes, {.min = 1, .max = kMaxSyntheticClasses, .max_now = most, .synonyms = {"num_classes"}},
         "number of classes. `synthetic`: each has its own pattern. `shapes`: the ground and kinds of shapes, 2 to 5, "
         "all 5 unless it is given. `image_masks`: the grey levels of masks are 0 to this less 1, 2 to 256");
    keys.check("classes", !has_masks() || classes >= 2, "expected at least two classes of pixels");
  }
  if (has_files() && !has_masks()) {
    keys(
        "crop_pct", crop_pct, {.min = 0.1, .max = 1, .synonyms = {"crop_ratio"}},
        "without `random_resized_crop`, and for validation, images are scaled until their shorter side is `image_size` "
        "over this, and the centre is shown");
  }
  if (has_files()) {
    keys("val_share", val_share,
         {.above = 0, .below = 1, .synonyms = {"val_split", "validation_split", "val_ratio", "split"}},
         "share of the training images that becomes the validation set if there is none; the names of the files decide "
         "which images, and new images move no other");
    keys("test_share", test_share, {.min = 0, .below = 1, .synonyms = {"test_split", "test_ratio"}},
         "share of the training images that is kept for `braid eval --split test` if there is no test set");
    keys.check("test_share", val_share + test_share < 1,
               message("expected less than 1 together with val_share = ", val_share));
    keys("split_seed", split_seed, {}, "another seed chooses other images");
    keys("background", background, {.min = 0, .max = 1, .synonyms = {"bg_color", "fill", "fillcolor"}},
         "what transparent pixels show, a number on the scale 0 to 1 per channel; empty: alpha is dropped, and they "
         "show "
         "the colour that the file has there, often black. `braid data` counts images with alpha");
    keys.check("background", background.empty() || std::ssize(background) == channels,
               message("expected one value per channel (", channels, "), got ", background.size()));
    keys("max_bad", max_bad, {.min = 0, .max = 1e6, .synonyms = {"max_errors"}},
         "number of unreadable images that a run passes over: training takes the next one of the epoch instead, "
         "validation leaves it out; one more ends the run with an error that names them. `braid data` finds them all");
  }
  keys("workers", workers, {.min = 0, .max = 1024, .synonyms = {"num_workers", "n_workers"}},
       "loader threads; 0 loads in the training thread. The batches do not depend on this number. More workers than "
       "cores cause a warning");
  keys("prefetch", prefetch, {.min = 1, .max = 1024, .synonyms = {"prefetch_factor"}},
       "limit of the batches that are loaded ahead");
  const Keys of_augment = keys.section("augment", "random changes of training images");
  declare_augment(of_augment, augment, mixing);
  const ColorJitter& jitter = augment.color_jitter;
  for (const auto& [key, is_set] : {std::pair("random_resized_crop", augment.random_resized_crop),
                                    {"mixup", mixing.mixup_alpha > 0},
                                    {"cutmix", mixing.cutmix_alpha > 0},
                                    {"brightness", jitter.brightness > 0},
                                    {"contrast", jitter.contrast > 0},
                                    {"saturation", jitter.saturation > 0},
                                    {"hue", jitter.hue > 0}}) {
    of_augment.check(
        key, !has_masks() || !is_set,
        "images with masks can be cropped, flipped and erased, but not resized, mixed or changed in colour");
  }
  const Keys normalize = keys.section("normalize", "how pixels are scaled");
  const bool color = name == "cifar10" || name == "cifar100";
  const auto count = static_cast<std::size_t>(is_synthetic() || has_files() ? channels : color ? 3 : 1);
  normalize("mean", mean, {},
            "pixels on the scale 0 to 1 become (pixel − mean) / std; one number per channel; empty: 0");
  normalize("std", std, {.above = 0}, "one number per channel; empty: 1");
  for (const auto& [key, values] : {std::pair("mean", &mean), std::pair("std", &std)}) {
    normalize.check(key, values->empty() || values->size() == count,
                    message("expected one value per channel (", count, "), got ", values->size()));
  }
  normalize("compute", compute_normalization, {.synonyms = {"auto"}},
            "takes mean and std from up to 10,000 training images; the config in the run's folder states them");
  normalize.check("compute", !compute_normalization || (mean.empty() && std.empty()),
                  "has no meaning together with given mean and std");
}

void TrainConfig::check_task(const Keys& of_data) const {
  using models::Task;
  const Task task = model.task();
  of_data.check("pairs", data.pairs || task != Task::verification,
                message("the model '", model.name, "' compares pairs of images: expected true, got false"));
  of_data.check("name", data.has_masks() || task != Task::segmentation,
                message("the model '", model.name, "' learns a label for each pixel: expected image_masks or shapes"));
  of_data.check("name", !data.has_masks() || task == Task::segmentation,
                message("each pixel of '", data.name, "' has a label, which is for the model 'unet'"));
  of_data.check("only_classes", !data.has_masks() || data.only_classes.empty(), "has no meaning for masks");
  of_data.check("pairs", !data.has_masks() || !data.pairs, "has no meaning for masks");
  of_data.check("sampler", !data.has_masks() || !data.balances_classes, "balanced needs a class for each image");
  of_data.check("pairs", task != Task::generation || !data.pairs, "has no meaning for a network that makes images");
  const bool crops = data.augment.random_resized_crop || data.augment.crop_padding > 0 || data.mixing.cutmix_alpha > 0;
  of_data.check("augment", !data.pairs || !crops,
                "pairs of images can be flipped and changed in colour, but not cropped");
  of_data.check("augment", task != Task::generation || !data.mixing.any(),
                message("the model '", model.name, "' knows no classes whose images could be mixed"));
}

void DataConfig::declare_classes(const Keys& keys, std::string_view key, std::vector<int>& list, KeyRule rule,
                                 std::string_view text) const {
  rule.min = 0;
  rule.max = kMaxSyntheticClasses - 1;
  if (!has_files()) rule.max_now = (is_synthetic() ? classes : name == "cifar100" ? 100 : 10) - 1;
  keys(key, list, rule, text);
  const std::set<int> different(list.begin(), list.end());
  keys.check(key, different.size() == list.size(), "expected each class once");
}

}  // namespace braid
