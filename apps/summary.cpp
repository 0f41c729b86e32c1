#include "train/summary.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "models/registry.h"

namespace braid::apps {

namespace {

/// A model by its name alone: on images as of ImageNet.
RunConfig config_of_model(const std::string& model, const std::vector<std::string>& overrides) {
  const std::string text = message("name: summary\nmodel: {name: ", model,
                                   "}\n"
                                   "data: {name: synthetic, size: 32, test_size: 1, image_size: 224, classes: 1000}\n"
                                   "train: {epochs: 1, batch_size: 32}\n");
  return read_run_config(parse_config(text, model), overrides);
}

}  // namespace

void add_summary(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    int depth = 0;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("summary", "Show a model layer by layer, and what its training step offers");
  arguments->config.add_to(*command);
  command->get_option("config")->description(
      "Config file, or the name of a model (then on 32 images of 224x224x3 and 1000 classes; --set changes that)");
  command->add_option("--depth", arguments->depth, "Show layers down to so many parts of their names")
      ->check(CLI::Range(1, 100));
  command->callback([arguments, &exit_code] {
    const auto& [path, overrides] = arguments->config;
    const std::vector<std::string> models = models::model_names();
    const bool named = std::ranges::find(models, path) != models.end() && !std::filesystem::exists(path);
    const bool like_a_name = path.find_first_of("./") == std::string::npos && !std::filesystem::exists(path);
    if (!named && like_a_name) models::model_option_names(path);  // throws: there is no such model
    const RunConfig config = named ? config_of_model(path, overrides) : read_run_config(path, overrides);
    for (const JobConfig& job : config.jobs) {
      if (&job != config.jobs.data()) std::cout << '\n';
      if (config.together) std::cout << "job " << job.training.name << ": ";
      std::cout << to_text(summarize(job.training, arguments->depth));
    }
    exit_code = kOk;
  });
}

}  // namespace braid::apps
