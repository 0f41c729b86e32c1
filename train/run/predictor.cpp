#include "train/run/predictor.h"

#include <algorithm>
#include <cmath>

#include "train/checkpoint/checkpoint.h"
#include "train/run/factories.h"

namespace braid {

namespace {

std::vector<double> softmax(std::span<const float> logits) {
  const double top = std::ranges::max(logits);
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) sum += probabilities.emplace_back(std::exp(logit - top));
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

Predictor::Predictor(const TrainConfig& config, const std::filesystem::path& path)
    : batch_size_(config.eval_batch_size), dtype_(config.dtype), session_(config.session) {
  const SafeTensors file(path);
  images_ = read_training_images(file, config.data);
  model_ = make_model(config.model, session_, std::ssize(images_.classes), images_.image_shape);
  load_trained(file, session_, model_->tensors());
  inference_ = std::make_unique<Inference>(*model_);
  TransformOptions transform = loader_options(config, Split::val).transform;
  transform.mean.assign(images_.mean.begin(), images_.mean.end());
  transform.std.assign(images_.std.begin(), images_.std.end());
  transform_ = std::make_unique<Transform>(transform, images_.image_shape);
}

std::vector<std::vector<double>> Predictor::operator()(std::span<const Image> images) {
  std::vector<std::vector<double>> predictions;
  const auto image_size = static_cast<std::size_t>(images_.image_shape.size());
  while (!images.empty()) {
    const std::size_t count = std::min(images.size(), static_cast<std::size_t>(batch_size_));
    const Shape& image = images_.image_shape;
    Array batch(DType::f32, {static_cast<std::int64_t>(count), image[0], image[1], image[2]});
    for (std::size_t i = 0; i < count; ++i) {
      Generator unused(0);  // predictions change nothing at random
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
      predictions.push_back(softmax(values.as<float>().subspan(i * classes().size(), classes().size())));
    }
    images = images.subspan(count);
  }
  return predictions;
}

}  // namespace braid
