#include "train/pathnet/winner.h"

#include <algorithm>

#include "core/text/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"
#include "train/run/factories.h"
#include "train/run/log/run_folder.h"

namespace braid {

namespace {

constexpr const char* kLastLayer = "task_b";

/// The layers of a path, each of which reads the sum of those above it.
std::vector<models::LayerSpec> layers_of(const models::PathNetOptions& net, const models::Genotype& path,
                                         const std::string& last_layer) {
  const bool linear = net.form == models::PathNetOptions::Form::linear;
  std::vector<models::LayerSpec> layers;
  const auto add = [&](models::LayerSpec layer) {
    layers.push_back(std::move(layer));
    return layers.back().name;
  };
  std::string below = linear ? add({.type = "flatten", .name = "pixels", .from = {"input"}}) : "input";
  std::int64_t width = net.width;
  for (int layer = 0; layer < net.grid.layers; ++layer) {
    if (layer > 0 && !linear) {
      below = add({.type = "max_pool", .name = message("pool", layer), .from = {below}, .kernel = {2}});
      width *= 2;
    }
    std::vector<std::string> outputs;
    for (const int i : path.modules(layer)) {
      const std::string module = message("layer", layer, '_', i, '_');
      if (linear) {
        outputs.push_back(
            add({.type = "linear", .name = module + "linear", .from = {below}, .size = width, .activation = "relu"}));
        continue;
      }
      const std::string conv = add({.type = "conv",
                                    .name = module + "conv",
                                    .from = {below},
                                    .channels = width,
                                    .kernel = {3},
                                    .padding = {1},
                                    .bias = false});
      outputs.push_back(add({.type = "batch_norm", .name = module + "bn", .from = {conv}, .activation = "relu"}));
    }
    below = outputs.size() == 1 ? outputs[0] : add({.type = "add", .name = message("layer", layer), .from = outputs});
  }
  if (!linear) below = add({.type = "global_avg_pool", .name = "mean", .from = {below}});
  add({.type = "linear", .name = last_layer, .from = {below}});
  return layers;
}

/// The name in the list of layers of a tensor of the net: "layer0_3_conv.weight" for "layer0.3.conv.weight".
std::string name_in_list(std::string name) {
  std::ranges::replace(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(name.rfind('.')), '.', '_');
  return name;
}

}  // namespace

TrainConfig winner_config(const PathNetConfig& config, const models::Genotype& path, const std::string& last_layer,
                          const std::vector<int>& classes) {
  TrainConfig winner;
  winner.name = "winner";
  winner.session = config.session;
  winner.dtype = config.tournament.dtype;
  winner.model.layers = layers_of(config.net, path, last_layer);
  winner.data = config.data;
  winner.data.only_classes = classes;
  winner.epochs = 1;
  winner.batch_size = config.batch_size;
  winner.optimizer.lr = config.tournament.lr;
  winner.output_root = config.output_root;
  return winner;
}

void save_winner(const std::filesystem::path& run, const PathNetConfig& config, const models::Genotype& path,
                 Session& session, const models::PathNet& net) {
  const TrainConfig winner = winner_config(config, path, kLastLayer, config.task_b);
  std::vector<NamedArray> tensors;
  for (NamedArray& tensor : copies_of(session, net.tensors())) {
    tensor.name = name_in_list(tensor.name);
    const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
    const auto named = [&](const models::LayerSpec& spec) { return spec.name == layer; };
    if (std::ranges::any_of(winner.model.layers, named)) tensors.push_back(std::move(tensor));
  }
  DatasetPool datasets;
  const auto training = datasets.get(winner, Split::train), validation = datasets.get(winner, Split::val);
  const std::filesystem::path folder = run / RunFolder::kWinner;
  std::filesystem::create_directories(folder);
  write_safetensors(folder / RunFolder::kModel, tensors, model_metadata(winner.data, *training, *validation));
  replace_file(folder / RunFolder::kConfig, to_yaml(winner));
}

}  // namespace braid
