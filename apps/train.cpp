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
    std::string trace;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("train", "Train the model of a config, or its jobs");
  arguments->config.add_to(*command);
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  command
      ->add_option("--trace", arguments->trace,
                   "Write what one step does beside what was planned, as a Chrome trace (JSON)")
      ->type_name("FILE");
  command->callback([arguments, &exit_code] {
    const auto& [path, overrides] = arguments->config;
    Progress progress(std::cout, Progress::suitable_mode(arguments->quiet));
    const ConfigNode tree = read_config_file(path);
    if (const auto pathnet = read_pathnet_config(tree, overrides)) {
      BRAID_CHECK(arguments->trace.empty(), ConfigError,
                  "--trace expects a config whose steps are alike; paths through a PathNet are not");
      exit_code = run_pathnet(*pathnet, progress).interrupted ? kInterrupted : kOk;
      return;
    }
    Trainer trainer(read_run_config(tree, overrides));
    if (!arguments->trace.empty()) trainer.trace_to(arguments->trace);
    const RunResult result = trainer.run(progress);
    if (!arguments->trace.empty() && !trainer.traced()) {
      std::cerr << "braid: warning: " << arguments->trace
                << " is empty: the training was over before a plan was settled\n";
    }
    for (const TrainResult& job : result.jobs) {
      if (job.failure != nullptr) std::cerr << "braid: error: job " << job.name << ": " << job.failure_text() << '\n';
    }
    exit_code = result.interrupted ? kInterrupted : result.failed() ? kFailed : kOk;
  });
}

}  // namespace braid::apps
