#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "train/pathnet_run.h"
#include "train/trainer.h"

namespace braid::apps {

void add_train(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    bool quiet = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model of a config, or its jobs");
  arguments->config.add_to(*command);
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  command->callback([arguments, &exit_code] {
    const auto& [path, overrides] = arguments->config;
    Progress progress(std::cout, Progress::suitable_mode(arguments->quiet));
    const ConfigNode tree = read_config_file(path);
    if (const auto pathnet = read_pathnet_config(tree, overrides)) {
      exit_code = run_pathnet(*pathnet, progress).interrupted ? kInterrupted : kOk;
      return;
    }
    Trainer trainer(read_run_config(tree, overrides));
    const RunResult result = trainer.run(progress);
    for (const TrainResult& job : result.jobs) {
      if (job.failure != nullptr) std::cerr << "braid: error: job " << job.name << ": " << job.failure_text() << '\n';
    }
    exit_code = result.interrupted ? kInterrupted : result.failed() ? kFailed : kOk;
  });
}

}  // namespace braid::apps
