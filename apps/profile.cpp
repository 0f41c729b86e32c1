#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "core/backend.h"
#include "ops/cpu/onednn.h"
#include "train/profiling.h"

namespace braid::apps {

namespace {

/// The options --device and --batch-size are overrides of the config.
struct Arguments {
  ConfigArguments config;
  std::string output, device;
  std::int64_t batch_size = 0;
  int runs = 5;

  std::vector<TrainConfig> configs() const {
    std::vector<TrainConfig> result;
    for (const JobConfig& job : read_config_or_model(config).jobs) {
      TrainConfig& training = result.emplace_back(job.training);
      if (!device.empty()) training.session.device = device;
      if (batch_size == 0) continue;
      training.batch_size = batch_size;
      if (training.data.name == "synthetic") training.data.size = batch_size;
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
    std::cout << config.model.name << ", batch " << config.batch_size << ": " << measured.measurements.size()
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
  arguments->config.add_to(*command);
  command->get_option("config")->description(kConfigOrModel);
  command->add_option("-o,--output", arguments->output, "Profile (JSON); measurements are added to those it has")
      ->required();
  command->add_option("--device", arguments->device, "Device, in place of the config's");
  command->add_option("--batch-size", arguments->batch_size, "Batch size, in place of the config's")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--runs", arguments->runs, "Measured steps at every width")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    profile(*arguments);
    exit_code = kOk;
  });
}

}  // namespace braid::apps
