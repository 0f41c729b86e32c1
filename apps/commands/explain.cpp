#include "train/report/plan/explain.h"

#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/plan_files.h"
#include "train/inspect/plan_report.h"

namespace braid::apps {

void add_explain(Command& app) {
  struct Arguments {
    ConfigArguments config;
    PlanRequest request;
    std::string block;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("explain", "Explain step by step how a block of a network is scheduled");
  PlanRequest& request = arguments->request;
  request.policy = "critical_path";  // the policy that logs its decisions
  arguments->config.add_to(command, kConfigOrModel);
  command.add_option("--block", "NAME", &arguments->block,
                     "Explain this layer and the layers within it; default: list the blocks");
  command.add_option("--device", "DEVICE", &request.device,
                     "Device to plan for, as for 'braid plan'; default: the config's");
  command.add_option("--streams", "N", [&request](const std::string& text) { request.streams = {std::stoi(text)}; },
                     "Streams to plan for; default: the config's, or 4", {.check = in_range(1, 64)});
  command.add_option("--batch-size", "N", &request.batch_size, "Batch size of every job; default: the config's",
                     {.check = in_range(1, 1 << 20)});
  arguments->files.add_to(command, "the plan of the block", {.needs = "--block"});
  command.footer =
      "Example:\n  braid explain googlenet\n"
      "  braid explain configs/googlenet_fashion_mnist.yaml --block inception4a \\\n"
      "    --batch-size 4 --device docs/two-cores.json";
  command.run = [arguments] {
    const RunConfig config = read_config_or_model(arguments->config);
    const scheduler::PlanView step = view_of(report_plan(config, arguments->request));
    if (arguments->block.empty()) {
      std::cout << step.title << "\nBlocks for --block:\n\n" << list_blocks(step);
      return;
    }
    const scheduler::Explanation explanation = explain_block(step, arguments->block);
    arguments->files.write(explanation.view);
    std::cout << to_text(explanation);
  };
}

}  // namespace braid::apps
