#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "train/trainer.h"

namespace braid::apps {

void add_train(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    bool quiet = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model of a config");
  arguments->config.add_to(*command);
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  command->callback([arguments, &exit_code] {
    Trainer trainer(read_train_config(arguments->config.path, arguments->config.overrides));
    Progress progress(std::cout, Progress::suitable_mode(arguments->quiet));
    exit_code = trainer.run(progress).interrupted ? kInterrupted : kOk;
  });
}

}  // namespace braid::apps
