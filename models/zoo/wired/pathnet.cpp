#include "models/zoo/wired/pathnet.h"

#include <algorithm>

namespace braid::models {

namespace {

const PathNetOptions& checked(const PathNetOptions& options) {
  const PathGrid& grid = options.grid;
  BRAID_CHECK(grid.layers >= 1 && grid.modules >= 1 && grid.active >= 1 && options.width >= 1, Error,
              "[pathnet] expected layers, modules, active and width of at least 1, got ", grid.layers, ", ",
              grid.modules, ", ", grid.active, " and ", options.width);
  if (options.form == PathNetOptions::Form::linear) return options;
  const std::int64_t side = std::min(options.image_shape[0], options.image_shape[1]);
  BRAID_CHECK(grid.layers <= 16 && side >> (grid.layers - 1) >= 1, Error, "[pathnet] ", grid.layers,
              " layers with a 2x2 pool between them leave nothing of images of shape ", options.image_shape);
  return options;
}

}  // namespace

void PathModule::initialise() {
  for (Module* layer : modules()) {
    if (auto* weighted = dynamic_cast<WeightedLayer*>(layer)) weighted->initialise();
    if (auto* norm = dynamic_cast<BatchNormLayer*>(layer)) norm->initialise();
  }
}

PathNet::PathNet(Context& context, const PathNetOptions& options) : Module(context), options_(checked(options)) {
  add_modules(nullptr);
}

PathNet::PathNet(Context& context, const PathNetOptions& options, const Genotype& path)
    : Module(context), options_(checked(options)) {
  check_path(path);
  add_modules(&path);
  path_ = path;
}

void PathNet::add_modules(const Genotype* only) {
  const bool linear = options_.form == PathNetOptions::Form::linear;
  features_ = linear ? options_.image_shape.size() : options_.image_shape[2];
  std::int64_t width = options_.width;
  for (int layer = 0; layer < options_.grid.layers; ++layer) {
    auto& modules = modules_.emplace_back(options_.grid.modules, nullptr);
    for (int i = 0; i < options_.grid.modules; ++i) {
      if (only != nullptr && std::ranges::count(only->modules(layer), i) == 0) continue;
      const std::string name = message("layer", layer, '.', i);
      auto& module = add<PathModule>(name);
      modules[static_cast<std::size_t>(i)] = &module;
      if (linear) {
        module.then<LinearLayer>("linear", features_, width);
        module.then(relu);
      } else {
        module.then<ConvLayer>("conv", features_, width, 3, Conv2dOptions{.padding = 1});
        module.then<BatchNormLayer>("bn", width, Activation::relu);
      }
    }
    features_ = width;
    if (!linear) width *= 2;
  }
}

int PathNet::add_task(std::string_view name, std::int64_t classes) {
  last_layers_.push_back(&add<LinearLayer>(name, features_, classes));
  return static_cast<int>(last_layers_.size()) - 1;
}

void PathNet::check_path(const Genotype& path) const {
  const PathGrid& grid = options_.grid;
  BRAID_CHECK(static_cast<int>(path.layers.size()) == grid.layers, Error, "[pathnet] expected a path of ", grid.layers,
              " layers, got ", path.layers.size());
  for (std::size_t layer = 0; layer < path.layers.size(); ++layer) {
    BRAID_CHECK(!path.layers[layer].empty(), Error, "[pathnet] the path has no module in layer ", layer);
    for (const int module : path.layers[layer]) {
      BRAID_CHECK(module >= 0 && module < grid.modules, Error, "[pathnet] the path uses module ", module, " of layer ",
                  layer, ", expected 0 to ", grid.modules - 1);
      const bool is_there = modules_.empty() || modules_[layer][static_cast<std::size_t>(module)] != nullptr;
      BRAID_CHECK(is_there, Error, "[pathnet] module ", module, " of layer ", layer,
                  " is not there: the net was made for another path");
    }
  }
}

Tensor PathNet::forward(const Tensor& x, const Genotype& path, int task) {
  check_path(path);
  BRAID_CHECK(task >= 0 && task < static_cast<int>(last_layers_.size()), Error, "[pathnet] there is no task ", task,
              ": there are ", last_layers_.size());
  const bool linear = options_.form == PathNetOptions::Form::linear;
  const Genotype used = join(path, always_);
  Tensor y = linear ? flatten(x) : x;
  std::vector<Tensor> outputs;
  for (int layer = 0; layer < options_.grid.layers; ++layer) {
    if (layer > 0 && !linear) y = max_pool2d(y, {});
    outputs.clear();
    for (const int i : used.modules(layer)) outputs.push_back(module(layer, i)(y));
    y = outputs.size() == 1 ? outputs[0] : sum(outputs);
  }
  return (*last_layers_[static_cast<std::size_t>(task)])(linear ? y : global_avg_pool(y));
}

void PathNet::use(const Genotype& path, int task) {
  check_path(path);
  path_ = path;
  task_ = task;
}

PathModule& PathNet::module(int layer, int module) const {
  return *modules_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(module)];
}

void PathNet::keep_active(const Genotype& path) {
  check_path(path);
  always_ = path;
}

void PathNet::freeze(const Genotype& path) {
  check_path(path);
  for (int layer = 0; layer < options_.grid.layers; ++layer) {
    for (const int i : path.modules(layer)) module(layer, i).freeze();
  }
}

void PathNet::reinitialise() {
  for (const auto& layer : modules_) {
    for (PathModule* module : layer) {
      if (module != nullptr && !module->frozen()) module->initialise();
    }
  }
}

}  // namespace braid::models
