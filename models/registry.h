#pragma once
// Models by name, as configs ask for them.

#include "models/module.h"

namespace braid::models {

/// What every model can be told. Options that a model does not have are ignored by it.
struct ModelOptions {
  std::int64_t classes = 10;
  Shape image_shape{32, 32, 3};     ///< [H,W,C]
  bool zero_init_residual = false;  ///< residual networks
  std::string stem = "auto";        ///< ResNet-18 to 152: image, small_image, or auto (by the image's size)
};

/// Throws Error with the list of names if there is no such model.
std::unique_ptr<Module> make_model(std::string_view name, Context& context, const ModelOptions& options);
std::vector<std::string> model_names();

}  // namespace braid::models
