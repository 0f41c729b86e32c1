#pragma once
// A trained model that names the classes of images. Everything it needs is in the run's folder; it does not read the
// dataset.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/transforms/transform.h"
#include "models/inference.h"
#include "runtime/session.h"
#include "train/checkpoint/training_images.h"
#include "train/config/config.h"

namespace braid {

/// Use it from one thread at a time.
class Predictor {
 public:
  /// Loads the model that a training of this config has saved. Throws DataError if the file does not fit.
  Predictor(const TrainConfig& config, const std::filesystem::path& model);

  const std::vector<std::string>& classes() const { return images_.classes; }
  /// [H,W,C] of the images that the model reads. Others are resized, as for validation.
  const Shape& image_shape() const { return images_.image_shape; }
  Session& session() { return session_; }
  Module& model() { return *model_; }
  /// The probability of every class for each image. The images have C channels.
  std::vector<std::vector<double>> operator()(std::span<const Image> images);

 private:
  TrainingImages images_;
  std::int64_t batch_size_;
  DType dtype_;
  Session session_;
  std::unique_ptr<Transform> transform_;
  std::unique_ptr<Module> model_;
  std::unique_ptr<Inference> inference_;
};

}  // namespace braid
