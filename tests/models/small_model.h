#pragma once
// Models and data small enough for many tests.

#include <algorithm>

#include "models/registry.h"
#include "tests/effort.h"
#include "tests/noise.h"

namespace braid {

/// Seven classes, an eighth of the width, and whatever else is small.
inline models::ModelOptions small_model(const Shape& image) {
  return {.classes = 7, .image_shape = image, .width = 0.125, .auxiliary = true, .hidden = {9, 8}};
}

/// The models of the registry without those that have another's blocks, only more of them.
inline std::vector<std::string> distinct_models() {
  std::vector<std::string> names = models::model_names();
  for (const char* deeper :
       {"resnet32", "resnet34", "resnet44", "resnet56", "resnet101", "resnet110", "resnet152", "vgg19", "vgg19_bn"}) {
    std::erase(names, deeper);
  }
  return names;
}

/// Models for tests of what networks do not do themselves.
inline std::vector<std::string> some_models() {
  return testing::kOnce ? std::vector<std::string>{"resnet20", "googlenet"} : distinct_models();
}

/// 0, 1, 2, … for seven classes.
inline Array labels(std::int64_t count) {
  Array array(DType::i32, {count});
  std::int32_t next = 0;
  for (std::int32_t& label : array.as<std::int32_t>()) label = next++ % 7;
  return array;
}

/// 0, 1, 2, … of the shape that these logits ask for.
inline Array labels_for(const Shape& logits) {
  Array array(DType::i32, label_shape(logits));
  std::int64_t next = 0;
  for (std::int32_t& label : array.as<std::int32_t>()) {
    label = static_cast<std::int32_t>(next++ % logits[logits.rank() - 1]);
  }
  return array;
}
inline Array labels_of(const Tensor& logits) { return labels_for(logits.shape()); }

/// The shape of the logits of a small model of the registry.
inline Shape logits_shape(std::string_view name, const Shape& images) {
  switch (models::model_task(name)) {
    case models::Task::segmentation: return {images[0], images[1], images[2], 7};
    case models::Task::generation: return {images[0], 2};
    default: return {images[0], 7};
  }
}

/// Records a training step of such a model up to the gradients; returns its losses.
inline std::vector<Tensor> record_gradients(std::string_view name, Module& model, const Tensor& images) {
  const Tensor labels = labels_for(logits_shape(name, images.shape()));
  const TrainingStep training = model.training_step(images, labels, labels);
  backward(training.objectives);
  std::vector<Tensor> losses;
  for (const Objective& objective : training.objectives) losses.push_back(objective.loss);
  return losses;
}

}  // namespace braid
