#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/backend.h"
#include "ops/cpu/onednn.h"
#include "train/profiling.h"

namespace braid::apps {

namespace {

/// A config for a model by its name: synthetic images of the size that the model was made for.
std::string config_of(const std::string& model) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(parts, [&](std::string_view part) { return model.starts_with(part); });
  };
  const bool small = is_one_of({"lenet5", "mlp", "pathnet_"}) || model == "resnet20" || model == "resnet32" ||
                     model == "resnet44" || model == "resnet56" || model == "resnet110";
  const int size = small ? 32 : model == "inception_v3" ? 299 : 224;
  return message("name: ", model, "\nmodel: {name: ", model, "}\ndata: {name: synthetic, image_size: ", size,
                 ", channels: 3, classes: ", small ? 10 : 1000, ", size: 32, test_size: 1}\n",
                 "train: {epochs: 1, batch_size: 32}\n");
}

std::vector<TrainConfig> read_configs(const std::string& source, const std::vector<std::string>& overrides) {
  const std::vector<std::string> models = models::model_names();
  if (std::ranges::find(models, source) != models.end() && !std::filesystem::exists(source)) {
    return {parse_train_config(config_of(source), source, overrides)};
  }
  std::vector<TrainConfig> configs;
  for (const JobConfig& job : read_run_config(source, overrides).jobs) configs.push_back(job.training);
  return configs;
}

/// The options --device and --batch-size are overrides of the config.
struct Arguments {
  std::string source, output, device;
  std::vector<std::string> overrides;
  std::int64_t batch_size = 0;
  int runs = 5;

  std::vector<TrainConfig> configs() const {
    std::vector<TrainConfig> result = read_configs(source, overrides);
    for (TrainConfig& config : result) {
      if (!device.empty()) config.session.device = device;
      if (batch_size == 0) continue;
      config.batch_size = batch_size;
      if (config.data.name == "synthetic") config.data.size = batch_size;
    }
    return result;
  }
};

std::string software() {
  const std::string onednn = cpu::onednn::version();
  return message("braid " BRAID_VERSION, onednn.empty() ? "" : ", oneDNN " + onednn);
}

void profile(const Arguments& arguments) {
  // What is wrong with the file should be known before anything is measured.
  Profile all;
  const bool exists = std::filesystem::exists(arguments.output);
  if (exists) all = read_profile(arguments.output);
  for (const TrainConfig& config : arguments.configs()) {
    if (exists) {
      const auto backend = make_backend(Device::parse(config.session.device), config.session.threads);
      check_device(all, arguments.output, backend->info().name, backend->info().capacity);
    }
    Profile measured = profile_training(config, arguments.runs);
    measured.software = software();
    std::cout << config.name << ", batch " << config.batch_size << ": " << measured.measurements.size()
              << " measurements on " << measured.device << std::endl;
    if (all.measurements.empty()) {
      all = std::move(measured);
    } else {
      merge(all, measured);
    }
    write_profile(arguments.output, all);
  }
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("profile", "Measure every node of a training step alone, to plan with");
  command->add_option("config", arguments->source, "Config file (YAML), or the name of a model")->required();
  command->add_option("-o,--output", arguments->output, "Profile (JSON); measurements are added to those it has")
      ->required();
  command->add_option("--device", arguments->device, "Device, in place of the config's");
  command->add_option("--batch-size", arguments->batch_size, "Batch size, in place of the config's")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--runs", arguments->runs, "Measured steps at every width")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--set", arguments->overrides, "Override a key of the config, as precision=bf16")
      ->type_name("KEY.PATH=VALUE")
      ->allow_extra_args(false)
      ->take_all();
  command->callback([arguments, &exit_code] {
    profile(*arguments);
    exit_code = kOk;
  });
}

}  // namespace braid::apps
