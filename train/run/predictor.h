#pragma once
// A trained model that names the classes of images. All it needs is in the run's folder: the data set may be gone.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/transform.h"
#include "models/inference.h"
#include "runtime/session.h"
#include "train/checkpoint/safetensors.h"
#include "train/config/config.h"

namespace braid {

/// The metadata of a model's file, for predictions: the names of the classes, and the shape of an image.
std::map<std::string, std::string> model_metadata(const ImageDataset& dataset);

/// Throws DataError if the file's model has other classes than the dataset, by name and order: its labels mean others.
void check_classes(const SafeTensors& file, const ImageDataset& dataset);
/// Reads a model that was trained on the dataset's classes. Throws as load_checkpoint() and check_classes().
void load_model(const std::filesystem::path& path, Session& session, Module& model, const ImageDataset& dataset);

/// Use it from one thread at a time.
class Predictor {
 public:
  /// Loads the model that a training of this config has saved. Throws DataError if the file does not fit.
  Predictor(const TrainConfig& config, const std::filesystem::path& model);

  const std::vector<std::string>& classes() const { return classes_; }
  /// [H,W,C] of the images that the model reads. Others are resized, as for tests.
  const Shape& image_shape() const { return image_shape_; }
  Session& session() { return session_; }
  Module& model() { return *model_; }
  /// Per image, the probability of every class. The images have C channels.
  std::vector<std::vector<double>> operator()(std::span<const Image> images);

 private:
  std::vector<std::string> classes_;
  Shape image_shape_;
  std::int64_t batch_size_;
  DType dtype_;
  Session session_;
  std::unique_ptr<Transform> transform_;
  std::unique_ptr<Module> model_;
  std::unique_ptr<Inference> inference_;
};

}  // namespace braid
