#include <charconv>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/messages.h"
#include "apps/plan_files.h"
#include "core/text/text.h"
#include "scheduler/costs/cluster.h"
#include "scheduler/costs/known_devices.h"
#include "train/checkpoint/files.h"
#include "train/inspect/plan_report.h"
#include "train/run/strategy.h"

namespace braid::apps {

namespace {

/// "4" or "1..16".
std::vector<int> parse_streams(const std::string& text) {
  constexpr int kMostStreams = 64;
  const auto parse = [&](std::string_view part) {
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 1 || number > kMostStreams) {
      throw UsageError(
          message("--streams: expected a number from 1 to ", kMostStreams, " or a range like 1..16, got '", text, "'"));
    }
    return number;
  };
  const std::size_t dots = text.find("..");
  const int first = parse(std::string_view(text).substr(0, dots));
  const int last = dots == std::string::npos ? first : parse(std::string_view(text).substr(dots + 2));
  std::vector<int> streams;
  for (int count = first; count <= last; ++count) streams.push_back(count);
  if (streams.empty()) throw UsageError(message("--streams: expected an ascending range, got '", text, "'"));
  return streams;
}

}  // namespace

void add_plan(Command& app) {
  struct Arguments {
    ConfigArguments config;
    PlanRequest request;
    bool json = false, wide = false;
    std::string svg, strategy_file, plan_file;
    PlanFiles files;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("plan", "Plan a training step without running it, for a device you may not have");
  PlanRequest& request = arguments->request;
  arguments->config.add_to(command, kConfigOrModel);
  command.add_option("--device", "DEVICE", &request.device,
                     message("auto, cpu, cuda, cuda:N, a known device (", comma_list(scheduler::known_device_names()),
                             "), or a file *.json that 'braid devices --json' printed; default: the config's"));
  command.add_option(
      "--streams", "N|A..B", [&request](const std::string& text) { request.streams = parse_streams(text); },
      "Streams to plan for, or a range of them; default: the config's, or 4");
  command.add_option("--policy", "NAME", &request.policy, "Show only this policy and serial; default: all policies");
  command.add_option("--batch-size", "N", &request.batch_size, "Batch size of every job; default: the config's",
                     {.check = in_range(1, 1 << 20)});
  command.add_flag("--forward", &request.forward,
                   "Plan the forward pass alone, in evaluation mode: no loss, gradients or update");
  command.add_option("--memory-limit", "MiB",
                     [&request](const std::string& mebibytes) { request.memory_limit = std::stoll(mebibytes) << 20; },
                     "Limit of the arena, in MiB; default: the config's", {.check = in_range(1, 1 << 24)});
  command.add_option(
      "--ranks", "N", &request.ranks,
      "Plan and simulate training on N ranks, each with the whole batch size of every job; needs --cluster",
      {.check = in_range(1, 1 << 20)});
  command.add_option("--cluster", "NAME", &request.cluster,
                     message("The cluster of the ranks: ", comma_list(scheduler::known_cluster_names()),
                             ", or a file *.yaml that describes one; its device is the default of --device"));
  command.add_option("--strategy", "NAME", &request.strategy,
                     "How layers are divided: data, owt, layerwise, auto, pipeline or a file, as parallel.strategy; "
                     "or all, to compare them; default: the config's",
                     {.needs = "--ranks"});
  command.add_option("--steps", "N", &request.steps, "Plan N training steps as one; default: the config's, or 1",
                     {.check = in_range(1, 64)});
  command.add_option("--straggler", "X", &request.straggler,
                     "Simulate that computing takes one of the ranks X times as long",
                     {.check = in_range(1.0, 1000.0)});
  command.add_flag(
      "--asynchronous", &request.asynchronous,
      "Simulate also asynchronous SGD: workers that do not wait for each other, and parameter servers on every host",
      {.needs = "--ranks"});
  command.add_option("--spread", "X", &request.spread,
                     "Relative standard deviation of the durations of its steps; default: 0.1",
                     {.check = in_range(0.0, 10.0), .needs = "--asynchronous"});
  command.add_option("--staleness-bound", "N",
                     [&request](const std::string& steps) { request.staleness_bound = std::stoi(steps); },
                     "Let its workers wait while they are more than N steps ahead of the slowest; default: no bound",
                     {.check = in_range(0, 1 << 20), .needs = "--asynchronous"});
  command.add_option("--sms", "N", &request.what_if.units, "Plan as if the device had N SMs or cores",
                     {.check = in_range(1, 1 << 16)});
  command.add_option("--scale-launch", "X", &request.what_if.launch_scale, "Plan as if a launch cost X times as much",
                     {.check = in_range(0.0, 1000.0)});
  command.add_option("--scale-bandwidth", "X", &request.what_if.bandwidth_scale,
                     "Plan as if the memory that all cores share were X times as fast",
                     {.check = in_range(0.001, 1000.0)});
  command.add_option("--host-launch", "X", &request.host_microseconds,
                     "Plan as if one host thread launched every node, X us each, instead of a CUDA graph",
                     {.check = in_range(0.0, 1000.0)});
  command.add_option("--wait", "X", &request.wait_microseconds,
                     "Plan as if a stream lost X us whenever it has to wait for another",
                     {.check = in_range(0.0, 1000.0)});
  command.add_flag("--json", &arguments->json, "Print one line of JSON");
  command.add_flag("--wide", &arguments->wide, "Print all columns of the table", {.excludes = "--json"});
  arguments->files.add_to(command, "the plan");
  command.add_option("--svg", "FILE", &arguments->svg,
                     "Write efficiency and speedup over the number of ranks: a picture (SVG)", {.needs = "--ranks"});
  command.add_option("--write-strategy", "FILE", &arguments->strategy_file,
                     "Write what each layer is divided along, or the stages of a pipeline: a file that "
                     "parallel.strategy can name (JSON)",
                     {.needs = "--ranks"});
  command.add_option("--write-plan", "FILE", &arguments->plan_file,
                     "Write the plan itself: the commands of every stream and the address of every result (JSON)");
  command.add_option("--plan", "FILE", &request.plan,
                     "Verify a plan that --write-plan has written for this step, and show it with the others");
  command.footer =
      "Exits with 1 if the plan does not fit the memory limit or the device.\n\n"
      "Example:\n  braid plan googlenet --device h200 --batch-size 64";
  command.run = [arguments, &app] {
    const RunConfig config = read_config_or_model(arguments->config);
    if (!arguments->strategy_file.empty() && arguments->request.strategy == kAllStrategies) {
      throw UsageError("--write-strategy: expected one strategy, got --strategy all");
    }
    const PlanReport report = report_plan(config, arguments->request);
    if (arguments->files.wanted()) arguments->files.write(view_of(report));
    if (!arguments->svg.empty()) write_file(arguments->svg, scaling_picture(describe(report.step), report.scaling));
    if (!arguments->strategy_file.empty()) {
      write_file(arguments->strategy_file, braid::to_json(report.step.strategy, arguments->request.ranks));
    }
    if (!arguments->plan_file.empty()) write_file(arguments->plan_file, to_json(report.planned.plan));
    std::cout << (arguments->json ? to_json(report) + '\n' : to_text(report, arguments->wide));
    const std::string reason = shortfall(report);
    app.exit_code = reason.empty() ? kOk : kFailed;
    if (!reason.empty()) print_error(reason);
  };
}

}  // namespace braid::apps
