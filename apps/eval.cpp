#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "train/trainer.h"

namespace braid::apps {

void add_eval(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    std::string checkpoint;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("eval", "Evaluate a trained model on the test set");
  arguments->config.add_to(*command);
  command->get_option("config")->description("Folder of a run, or a config file");
  command->add_option("--checkpoint", arguments->checkpoint,
                      "Checkpoint file; default: model.braid in the run's folder");
  command->callback([arguments, &exit_code] {
    const std::filesystem::path path = arguments->config.path;
    const bool is_folder = std::filesystem::is_directory(path);
    const std::filesystem::path folder = is_folder ? path : path.parent_path();
    const TrainConfig config =
        read_train_config(is_folder ? path / RunFolder::kConfig : path, arguments->config.overrides);
    const Evaluation result =
        evaluate_checkpoint(config, arguments->checkpoint.empty() ? folder / RunFolder::kModel
                                                                  : std::filesystem::path(arguments->checkpoint));
    std::cout << to_string(result) << '\n';
    exit_code = kOk;
  });
}

}  // namespace braid::apps
