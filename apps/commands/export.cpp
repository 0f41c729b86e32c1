#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "core/text/json.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/training_images.h"
#include "train/export/onnx.h"
#include "train/export/weights.h"
#include "train/run/factories.h"
#include "train/run/log/run_folder.h"

namespace braid::apps {

namespace fs = std::filesystem;

namespace {

struct ExportArguments {
  ConfigArguments config;
  std::string checkpoint, onnx, torchvision;
};

void export_model(const ExportArguments& arguments) {
  ConfigArguments source = arguments.config;
  const fs::path folder = RunFolder::of_model(source.path);
  const bool is_folder = fs::is_directory(folder);
  if (is_folder) source.path = folder / RunFolder::kConfig;
  TrainConfig config = single_job(read_config_or_model(source), source.path);
  config.session.device = "cpu";
  config.session.profile.clear();
  Session session(config.session);
  const std::string checkpoint =
      is_folder ? RunFolder::checkpoint(folder, arguments.checkpoint) : fs::path(arguments.checkpoint);
  const std::string& weights = checkpoint.empty() ? config.model.weights : checkpoint;
  TrainingImages images;
  std::unique_ptr<Module> model;
  if (!checkpoint.empty()) {
    const SafeTensors file(checkpoint);
    images = read_training_images(file, config.data);
    model = make_model(config.model, session, std::ssize(images.classes), images.image_shape);
    load_trained(file, session, model->tensors());
  } else {
    DatasetPool datasets;
    compute_normalization(config, datasets);
    const auto dataset = datasets.get(config, Split::val);
    images = {dataset->class_names(), dataset->image_shape(), config.data.mean, config.data.std};
    model = make_model(config.model, session, *dataset);
    if (!weights.empty()) load_weights(weights, *model, images.image_shape, images.classes);
  }
  const std::pair<std::string, std::string> metadata[] = {
      {"model", config.model.title()},
      {"mean", Json(images.mean).dump()},
      {"std", Json(images.std).dump()},
      {"classes", Json(images.classes).dump()},
      {"input", "pixels on the scale 0 to 1, then (pixel - mean) / std for each channel; an empty list means 0 or 1"}};
  if (!arguments.onnx.empty()) export_onnx(arguments.onnx, *model, images.image_shape, metadata);
  if (!arguments.torchvision.empty()) export_weights(arguments.torchvision, *model, images.image_shape);
  for (const std::string& file : {arguments.onnx, arguments.torchvision}) {
    if (file.empty()) continue;
    std::cout << "wrote " << file << ": " << config.model.title() << " with "
              << (weights.empty() ? "its initial weights" : "the weights of " + weights) << std::endl;
  }
}

}  // namespace

void add_export(Command& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  Command& command = app.add_command("export", "Write a trained network for other tools");
  arguments->config.add_to(command, "Folder of a run, a config file, or the name of a model");
  command.add_option("--onnx", "FILE", &arguments->onnx, "Write the network in evaluation mode as an ONNX file");
  command.add_option("--torchvision", "FILE", &arguments->torchvision,
                     "Write its weights as a safetensors file for torchvision's network of that name");
  command.add_option(
      "--checkpoint", "FILE", &arguments->checkpoint,
      "Which model of the run: best, last (the default), or a checkpoint file; without a folder, initial weights");
  command.footer = "Example:\n  braid export runs/lenet5-1 --onnx lenet5.onnx";
  command.run = [arguments] {
    if (arguments->onnx.empty() && arguments->torchvision.empty()) {
      throw UsageError("expected --onnx FILE or --torchvision FILE");
    }
    export_model(*arguments);
  };
}

}  // namespace braid::apps
