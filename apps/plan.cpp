#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/plan_files.h"
#include "train/plan_report.h"

namespace braid::apps {

void add_plan(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    PlanRequest request;
    bool json = false;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Plan a training step for a device, which need not be there, without running it");
  PlanRequest& request = arguments->request;
  arguments->config.add_to(*command);
  command->get_option("config")->description(kConfigOrModel);
  command->add_option(
      "--device", request.device,
      "auto, cpu, cuda, cuda:N, h200, or a file as of 'braid devices --json cuda', named *.json; default: "
      "the config's");
  command->add_option("--streams", request.streams, "Streams to plan for; default: the config's, or 4")
      ->check(CLI::Range(1, 64));
  command->add_option("--policy", request.policy, "How nodes are placed on streams; default: the config's");
  command->add_option("--batch-size", request.batch_size, "Images of every job; default: the config's")
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", arguments->json, "Print one line of JSON");
  arguments->files.add_to(*command, "the plan");
  command->callback([arguments, &exit_code] {
    const RunConfig config = read_config_or_model(arguments->config);
    PlanView view;
    const PlanReport report = report_plan(config, arguments->request, &view);
    arguments->files.write(view);
    std::cout << (arguments->json ? to_json(report) + '\n' : to_text(report));
    exit_code = kOk;
  });
}

}  // namespace braid::apps
