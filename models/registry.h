#pragma once
// Models by their names in configs. What takes a name throws Error with the list of names if there is no such model.

#include "models/layers/module.h"

namespace braid::models {

/// The options of models. model_option_names says which of the options from `zero_init_residual` on a model has; it
/// ignores the others.
struct ModelOptions {
  std::int64_t classes = 10;
  Shape image_shape{32, 32, 3};                   ///< [H,W,C]
  bool zero_init_residual = false;                ///< residual blocks start as their shortcuts
  std::string stem = "auto";                      ///< image, small_image, or auto (by the image's size)
  double width = 1;                               ///< multiplies the channels of all layers but the classifier's output
  bool auxiliary = false;                         ///< train with the auxiliary classifiers of the paper
  std::uint64_t graph_seed = 1;                   ///< what a random graph is drawn from
  std::vector<std::int64_t> hidden = {256, 128};  ///< sizes of the hidden layers
};

/// What a model learns: the class of an image, of each pixel, whether two images are of one class, or to make images.
enum class Task { classification, segmentation, verification, generation };

std::unique_ptr<Module> make_model(std::string_view name, Context& context, const ModelOptions& options);
std::vector<std::string> model_names();
Task model_task(std::string_view model);
/// A description of the model in one line.
std::string_view model_description(std::string_view model);
/// Which of zero_init_residual, stem, width, auxiliary, graph_seed and hidden the model has.
std::vector<std::string> model_option_names(std::string_view model);

}  // namespace braid::models
