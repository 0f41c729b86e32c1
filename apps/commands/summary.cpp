#include "train/inspect/summary.h"

#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"

namespace braid::apps {

void add_summary(Command& app) {
  struct Arguments {
    ConfigArguments config;
    int depth = 0;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command =
      app.add_command("summary", "Show the layers of a model and the average parallelism of its training step");
  arguments->config.add_to(command, kConfigOrModel);
  command.add_option("--depth", "N", &arguments->depth, "Show layers down to N levels; default: all",
                     {.check = in_range(1, 100)});
  command.add_flag("--json", &arguments->json, "Print one line of JSON for each job");
  command.footer = "Example:\n  braid summary googlenet --depth 1";
  command.run = [arguments] {
    const RunConfig config = read_config_or_model(arguments->config);
    for (const JobConfig& job : config.jobs) {
      const Summary summary = summarize(job.training, arguments->depth);
      if (arguments->json) {
        std::cout << to_json(summary) << '\n';
        continue;
      }
      if (&job != config.jobs.data()) std::cout << '\n';
      if (config.together) std::cout << "job " << job.training.name << ": ";
      std::cout << to_text(summary);
    }
  };
}

}  // namespace braid::apps
