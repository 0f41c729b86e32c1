#include "train/report/plan/explain.h"

#include <iostream>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/plan_files.h"
#include "train/inspect/plan_report.h"

namespace braid::apps {

void add_explain(Command& app) {
  struct Arguments {
    ConfigArguments config;
    PlanRequest request;
    std::string block, search, against;
    std::optional<NodeId> why;
    bool json = false;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("explain", "Explain step by step how a block of a network is scheduled");
  PlanRequest& request = arguments->request;
  request.policy = scheduler::kLoggedPolicy;
  arguments->config.add_to(command, kConfigOrModel);
  command.add_option("--block", "NAME", &arguments->block,
                     "Explain this layer and the layers within it; default: list the blocks, or, with one of the next "
                     "four options, explain the whole step");
  command.add_option("--search", "on|off", &arguments->search,
                     "off: explain one run of the list scheduler, by one rule, which critical_path then improves",
                     {.check = one_of({"on", "off"}), .shown_default = "on"});
  command.add_option("--why", "NODE",
                     [arguments = arguments.get()](const std::string& node) { arguments->why = std::stoi(node); },
                     "Explain only this node: when it was ready, why it starts then and there, what it waits for, "
                     "where its result lies",
                     {.check = in_range(0, 1 << 30)});
  command.add_option("--against", "POLICY", &arguments->against,
                     "Compare with the plan of this policy, or of list, which is without search: the first decision "
                     "in which they differ, and when each node runs",
                     {.excludes = "--why"});
  command.add_flag("--json", &arguments->json,
                   "Print one line of JSON: the decisions and the plans, first those without search",
                   {.excludes = "--why"});
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
    const auto& [config, wanted, block, search, against, why, json, files] = *arguments;
    const scheduler::PlanView step = view_of(report_plan(read_config_or_model(config), wanted));
    if (block.empty() && search.empty() && against.empty() && !why && !json) {
      std::cout << step.title << "\nBlocks for --block:\n\n" << list_blocks(step);
      return;
    }
    const bool is_text = !json && !why && against.empty();
    if (is_text) check_readable(step, block);
    std::vector<std::string_view> policies;
    if (json || search == "off") policies.push_back(scheduler::kPlainList);
    if (search != "off") policies.push_back(scheduler::kLoggedPolicy);
    const std::size_t explained = policies.size() - 1;
    if (!against.empty()) policies.push_back(against);
    std::vector<scheduler::Explanation> explanations;
    for (const std::string_view policy : policies) explanations.push_back(explain(step, block, policy));
    const scheduler::Explanation& explanation = explanations[explained];
    files.write(explanation.view);
    if (json) {
      std::cout << to_json(explanations, readable_blocks(step)) << '\n';
    } else if (why) {
      std::cout << explain_node(explanation, *why);
    } else if (is_text) {
      std::cout << to_text(explanation);
    } else {
      std::cout << compare(explanation, explanations.back());
    }
  };
}

}  // namespace braid::apps
