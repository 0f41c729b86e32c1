#include "train/run/predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/json.h"
#include "core/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/factories.h"

namespace braid {

namespace {

constexpr const char *kClasses = "classes", *kImageShape = "image_shape";

std::vector<double> softmax(std::span<const float> logits) {
  const double top = std::ranges::max(logits);
  std::vector<double> probabilities;
  for (const float logit : logits) probabilities.push_back(std::exp(logit - top));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

std::map<std::string, std::string> model_metadata(const ImageDataset& dataset) {
  std::map<std::string, std::string> metadata = layout_metadata();
  metadata[kClasses] = Json(dataset.class_names()).dump();
  const Shape image = dataset.image_shape();
  metadata[kImageShape] = Json(image.extents()).dump();
  return metadata;
}

void check_classes(const SafeTensors& file, const ImageDataset& dataset) {
  constexpr std::size_t kShown = 300;
  const auto of_model = file.metadata().find(kClasses);
  const std::string of_data = Json(dataset.class_names()).dump();
  BRAID_CHECK(of_model == file.metadata().end() || of_model->second == of_data, DataError, file.path(),
              ": the model's classes are ", shortened(of_model->second, kShown), ", those of ", dataset.name(), " are ",
              shortened(of_data, kShown));
}

void load_model(const std::filesystem::path& path, Session& session, Module& model, const ImageDataset& dataset) {
  const SafeTensors file(path);
  check_classes(file, dataset);
  load_trained(file, session, model.tensors());
}

Predictor::Predictor(const TrainConfig& config, const std::filesystem::path& path)
    : batch_size_(config.eval_batch_size), dtype_(config.dtype), session_(config.session) {
  const SafeTensors file(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    BRAID_CHECK(found != file.metadata().end(), DataError, file.path(), ": expected a model that 'braid train' has ",
                "saved; its metadata has no '", key, "'");
    return found->second;
  };
  try {
    const Json classes = parse_json(text(kClasses)), shape = parse_json(text(kImageShape));
    for (const JsonPart& name : JsonPart{classes, kClasses}.list()) classes_.push_back(name.text());
    constexpr std::int64_t kMostPixels = 1 << 14, kMostClasses = 1 << 24;
    JsonPart{shape, kImageShape}.check_size(3);
    std::vector<std::int64_t> extents;
    for (const JsonPart& extent : JsonPart{shape, kImageShape}.list())
      extents.push_back(extent.integer(1, kMostPixels));
    image_shape_ = Shape(extents);
    BRAID_CHECK(!classes_.empty() && std::ssize(classes_) < kMostClasses, JsonError, "'classes' must have names");
  } catch (const JsonError& error) {
    throw DataError(message(file.path(), ": damaged metadata: ", error.what()));
  }
  model_ = make_model(config.model, session_, std::ssize(classes_), image_shape_);
  load_trained(file, session_, model_->tensors());
  inference_ = std::make_unique<Inference>(*model_);
  transform_ = std::make_unique<Transform>(loader_options(config, Split::test).transform, image_shape_);
}

std::vector<std::vector<double>> Predictor::operator()(std::span<const Image> images) {
  std::vector<std::vector<double>> predictions;
  const auto image_size = static_cast<std::size_t>(image_shape_.size());
  while (!images.empty()) {
    const std::size_t count = std::min(images.size(), static_cast<std::size_t>(batch_size_));
    Array batch(DType::f32, {static_cast<std::int64_t>(count), image_shape_[0], image_shape_[1], image_shape_[2]});
    for (std::size_t i = 0; i < count; ++i) {
      Generator unused(0);  // tests change nothing at random
      (*transform_)(images[i], unused, batch.as<float>().subspan(i * image_size, image_size));
    }
    Step step = session_.step();
    const NoGrad no_grad;
    const Tensor output = (*inference_)(batch, dtype_);
    BRAID_CHECK(output.shape().rank() == 2, Error,
                "[predict] expected a network that gives each image a class, got one that gives ", output.shape(),
                ": export it to ONNX, or call it from C++");
    const Fetched logits = cast(output, DType::f32).fetch();
    step.run();
    const Array values = logits.array();
    for (std::size_t i = 0; i < count; ++i) {
      predictions.push_back(softmax(values.as<float>().subspan(i * classes_.size(), classes_.size())));
    }
    images = images.subspan(count);
  }
  return predictions;
}

}  // namespace braid
