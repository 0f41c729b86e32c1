#include "train/checkpoint/training_images.h"

#include <limits>

#include "core/text/json.h"
#include "core/text/text.h"
#include "train/checkpoint/checkpoint.h"

namespace braid {

namespace {

constexpr const char *kClasses = "classes", *kImageShape = "image_shape", *kMean = "mean", *kStd = "std",
                     *kHeldOut = "held_out";

/// The text of a key in the metadata; empty if there is none.
std::string text_in(const SafeTensors& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

std::vector<double> numbers_in(const SafeTensors& file, const char* key, double least,
                               const std::vector<double>& otherwise) {
  const std::string text = text_in(file, key);
  if (text.empty()) return otherwise;
  const Json json = parse_json(text);
  std::vector<double> numbers;
  for (const JsonPart& number : JsonPart{json, key}.list()) numbers.push_back(number.number(least));
  return numbers;
}

/// Identifies the images held out from training: the validation set, and what decides the test set if that is a share.
std::string held_out(const DataConfig& data, const ImageDataset& validation) {
  return message(validation.fingerprint().low, ' ', data.split_seed, ' ', data.val_share, ' ', data.test_share);
}

}  // namespace

std::map<std::string, std::string> model_metadata(const DataConfig& data, const ImageDataset& training,
                                                  const ImageDataset& validation) {
  std::map<std::string, std::string> metadata = layout_metadata();
  metadata[kClasses] = Json(training.class_names()).dump();
  const Shape image = training.image_shape();
  metadata[kImageShape] = Json(image.extents()).dump();
  metadata[kMean] = Json(data.mean).dump();
  metadata[kStd] = Json(data.std).dump();
  metadata[kHeldOut] = held_out(data, validation);
  return metadata;
}

TrainingImages read_training_images(const SafeTensors& file, const DataConfig& data) {
  constexpr std::int64_t kMostPixels = 1 << 14, kMostClasses = 1 << 24;
  for (const char* key : {kClasses, kImageShape}) {
    file.expect(!text_in(file, key).empty(), "expected a model that 'braid train' has saved; its metadata has no '",
                key, "'");
  }
  try {
    TrainingImages images;
    const Json classes = parse_json(text_in(file, kClasses)), shape = parse_json(text_in(file, kImageShape));
    for (const JsonPart& name : JsonPart{classes, kClasses}.list()) images.classes.push_back(name.text());
    JsonPart{shape, kImageShape}.check_size(3);
    std::vector<std::int64_t> extents;
    for (const JsonPart& extent : JsonPart{shape, kImageShape}.list()) {
      extents.push_back(extent.integer(1, kMostPixels));
    }
    images.image_shape = Shape(extents);
    images.mean = numbers_in(file, kMean, std::numeric_limits<double>::lowest(), data.mean);
    images.std = numbers_in(file, kStd, std::numeric_limits<double>::min(), data.std);
    BRAID_CHECK(!images.classes.empty() && std::ssize(images.classes) < kMostClasses, JsonError,
                "'classes' must have names");
    for (const std::vector<double>& numbers : {images.mean, images.std}) {
      BRAID_CHECK(numbers.empty() || std::ssize(numbers) == extents[2], JsonError,
                  "'mean' and 'std' must have a number for each channel");
    }
    return images;
  } catch (const JsonError& error) {
    throw DataError(message(file.path(), ": damaged metadata: ", error.what()));
  }
}

std::string classes_in(const SafeTensors& file) { return text_in(file, kClasses); }

void check_classes(const SafeTensors& file, const ImageDataset& dataset) {
  constexpr std::size_t kShown = 300;
  const std::string of_model = classes_in(file), of_data = Json(dataset.class_names()).dump();
  file.expect(of_model.empty() || of_model == of_data, "the model's classes are ", shortened(of_model, kShown),
              ", those of ", dataset.name(), " are ", shortened(of_data, kShown));
}

std::string held_out_otherwise(const SafeTensors& file, const DataConfig& data, const ImageDataset& validation) {
  const std::string before = text_in(file, kHeldOut);
  if (before.empty() || before == held_out(data, validation)) return "";
  return message(file.path(), ": its training held out other images than data.split_seed = ", data.split_seed,
                 ", data.val_share = ", data.val_share, " and data.test_share = ", data.test_share, " do from ",
                 validation.name(), ": the model may have been trained on some of these");
}

}  // namespace braid
