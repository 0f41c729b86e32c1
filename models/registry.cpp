#include "models/registry.h"

#include "models/lenet.h"
#include "models/pathnet.h"
#include "models/resnet.h"

namespace braid::models {

namespace {

using Factory = std::unique_ptr<Module> (*)(Context& context, const ModelOptions& options);

std::unique_ptr<Module> lenet(Context& context, const ModelOptions& options) {
  BRAID_CHECK(options.image_shape[0] == options.image_shape[1], Error, "[lenet5] expected square images, got ",
              options.image_shape);
  return std::make_unique<LeNet5>(context, LeNetOptions{.classes = options.classes,
                                                        .channels = options.image_shape[2],
                                                        .image_size = options.image_shape[0]});
}

template <int kDepth>
std::unique_ptr<Module> resnet(Context& context, const ModelOptions& options) {
  BRAID_CHECK(options.stem == "auto" || options.stem == "image" || options.stem == "small_image", Error,
              "[resnet] expected a stem of 'auto', 'image' or 'small_image', got '", options.stem, "'");
  constexpr std::int64_t kLargeImage = 128;
  const bool large = options.stem == "image" || (options.stem == "auto" && options.image_shape[0] >= kLargeImage);
  return std::make_unique<ResNet>(context, kDepth,
                                  ResNetOptions{.classes = options.classes,
                                                .channels = options.image_shape[2],
                                                .zero_init_residual = options.zero_init_residual,
                                                .stem = large ? Stem::image : Stem::small_image});
}

/// A net with one task and a path drawn at random, which stays; evolution is train/evolution.h. Two classes get the
/// grid of the paper's binary tasks, more classes that of its tasks of ten.
template <PathNetOptions::Form kForm>
std::unique_ptr<Module> pathnet(Context& context, const ModelOptions& options) {
  const PathGrid grid = options.classes <= 2 ? PathGrid{3, 10, 3} : PathGrid{3, 20, 5};
  const std::int64_t width = kForm == PathNetOptions::Form::linear ? 20 : 16;
  auto net = std::make_unique<PathNet>(
      context, PathNetOptions{.form = kForm, .grid = grid, .width = width, .image_shape = options.image_shape});
  Generator random = context.generator("path");
  net->use(random_genotype(grid, random), net->add_task("fc", options.classes));
  return net;
}

constexpr std::pair<std::string_view, Factory> kModels[] = {
    {"lenet5", lenet},
    {"resnet18", resnet<18>},
    {"resnet20", resnet<20>},
    {"resnet32", resnet<32>},
    {"resnet34", resnet<34>},
    {"resnet44", resnet<44>},
    {"resnet50", resnet<50>},
    {"resnet56", resnet<56>},
    {"resnet101", resnet<101>},
    {"resnet110", resnet<110>},
    {"resnet152", resnet<152>},
    {"pathnet_linear", pathnet<PathNetOptions::Form::linear>},
    {"pathnet_conv", pathnet<PathNetOptions::Form::conv>},
};

}  // namespace

std::unique_ptr<Module> make_model(std::string_view name, Context& context, const ModelOptions& options) {
  std::string known;
  for (const auto& [model, factory] : kModels) {
    if (model == name) return factory(context, options);
    known.append(known.empty() ? "" : ", ").append(model);
  }
  throw Error(message("[model] there is no model '", name, "'; there are ", known));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : kModels) names.emplace_back(name);
  return names;
}

}  // namespace braid::models
