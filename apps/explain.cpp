#include "scheduler/explain.h"

#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/plan_files.h"
#include "train/plan_report.h"

namespace braid::apps {

void add_explain(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    PlanRequest request;
    std::string block;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("explain", "Tell how a small block of a network is planned, step by step");
  PlanRequest& request = arguments->request;
  request.policy = "critical_path";  // whose decisions are told
  arguments->config.add_to(*command);
  command->get_option("config")->description(kConfigOrModel);
  command->add_option("--block", arguments->block, "Layers to look at: those of this name, or within it")
      ->type_name("NAME")
      ->required();
  command->add_option("--device", request.device, "Device to plan for, as for 'braid plan'; default: the config's");
  command
      ->add_option_function<int>(
          "--streams", [&request](int streams) { request.streams = {streams}; },
          "Streams to plan for; default: the config's, or 4")
      ->check(CLI::Range(1, 64));
  command->add_option("--batch-size", request.batch_size, "Images of every job; default: the config's")
      ->check(CLI::Range(1, 1 << 20));
  arguments->files.add_to(*command, "the plan of the block");
  command->callback([arguments, &exit_code] {
    const RunConfig config = read_config_or_model(arguments->config);
    const PlanReport report = report_plan(config, arguments->request);
    const Explanation explanation = explain_block(view_of(report), arguments->block);
    arguments->files.write(explanation.view);
    std::cout << to_text(explanation);
    exit_code = kOk;
  });
}

}  // namespace braid::apps
