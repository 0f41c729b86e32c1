#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/messages.h"
#include "core/device/backend.h"
#include "core/text/text.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "train/inspect/bench/profiling.h"
#include "train/run/factories.h"

namespace braid::apps {

namespace {

/// The options --device and --batch-size are overrides of the config.
struct Arguments {
  ConfigArguments config;
  std::string output, device;
  std::int64_t batch_size = 0;
  bool links = false;
  ProfilingOptions profiling;

  std::vector<TrainConfig> configs() const {
    std::vector<TrainConfig> result;
    for (const JobConfig& job : read_config_or_model(config).jobs) {
      TrainConfig& training = result.emplace_back(job.training);
      if (!device.empty()) training.session.device = device;
      if (batch_size == 0) continue;
      training.batch_size = batch_size;
      if (training.data.name == "synthetic") training.data.size = batch_size;
    }
    return result;
  }
};

std::string software() {
  const std::string onednn = cpu::onednn::version();
  return message("braid " BRAID_VERSION, onednn.empty() ? "" : ", oneDNN " + onednn);
}

std::string label(const TrainConfig& config) {
  return message(config.model.title(), ", batch ", config.batch_size, ": ");
}

/// Prints a line every few seconds while pairs are measured.
std::function<void(PairProgress)> pair_printer(const TrainConfig& config) {
  return [name = label(config), last = std::chrono::steady_clock::now()](PairProgress progress) mutable {
    constexpr std::chrono::seconds kPause(5);
    const auto now = std::chrono::steady_clock::now();
    if (now - last < kPause) return;
    last = now;
    std::cout << name << progress.done << " of " << plural(progress.total, "pair") << std::endl;
  };
}

/// The file to add to, if there is one: read first, so that an error in it appears before the measurements.
std::optional<scheduler::Profile> existing(const std::string& path) {
  return std::filesystem::exists(path) ? std::optional(scheduler::read_profile(path)) : std::nullopt;
}

/// Profiles the link between ranks on the config's device, or without a config on the CPU. Only rank 0 prints and
/// writes.
void profile_links(const Arguments& arguments) {
  RunConfig config;
  if (!arguments.config.path.empty()) config = read_config_or_model(arguments.config);
  if (config.jobs.empty()) config.jobs.emplace_back();
  TrainConfig& training = config.jobs.front().training;
  if (!arguments.device.empty()) training.session.device = arguments.device;
  const std::optional<scheduler::Profile> old = existing(arguments.output);
  join_ranks(config);
  LinkProfile measured = profile_link(training);
  const ParallelOptions& parallel = training.session.parallel;
  if (rank(parallel) > 0) return;
  measured.profile.software = software();
  std::cout << to_text(measured, parallel.ranks());
  if (arguments.output.empty()) return;
  scheduler::Profile all = old.value_or(measured.profile);
  check_device(all, arguments.output, measured.profile.device, measured.profile.capacity);
  merge(all, measured.profile);
  scheduler::write_profile(arguments.output, all);
}

void profile(const Arguments& arguments) {
  const std::optional<scheduler::Profile> old = existing(arguments.output);
  scheduler::Profile all = old.value_or(scheduler::Profile{});
  const std::vector<TrainConfig> configs = arguments.configs();
  warn_about(configs.front().session);  // which all jobs share
  for (const TrainConfig& config : configs) {
    if (old.has_value()) {
      const auto backend = make_backend(Device::parse(config.session.device), config.session.threads);
      check_device(all, arguments.output, backend->info().name, backend->info().capacity);
    }
    scheduler::Profile measured = profile_nodes(config, arguments.profiling);
    measured.software = software();
    std::cout << label(config) << plural(measured.measurements.size(), "measurement") << " by " << measured.clock
              << ", on " << measured.device << std::endl;
    if (all.device.empty()) {
      all = std::move(measured);
    } else {
      merge(all, measured);
    }
    scheduler::write_profile(arguments.output, all);
  }
  if (arguments.profiling.pairs == 0) return;

  for (const TrainConfig& config : configs) {
    ProfilingOptions options = arguments.profiling;
    options.on_pair = pair_printer(config);
    scheduler::Profile measured = all;
    profile_pairs(config, options, measured);
    std::cout << label(config) << plural(measured.pairs.size(), "interference factor") << ", waits of "
              << measured.wait_microseconds << " us";
    if (!measured.pairs.empty()) std::cout << ", by " << measured.pair_clock;
    std::cout << std::endl;
    merge(all, measured);
    scheduler::write_profile(arguments.output, all);
  }
}

}  // namespace

void add_profile(Command& app) {
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command(
      "profile", "Measure the nodes of a training step, or the link between ranks, for plans with real durations");
  arguments->config.add_to(command, message(kConfigOrModel, "; not needed with --links"),
                           {.required = true, .unless = &arguments->links});
  command.add_option("-o,--output", "FILE", &arguments->output,
                     "Profile to write (JSON); adds to an existing file; not needed with --links",
                     {.required = true, .unless = &arguments->links});
  command.add_flag(
      "--links", &arguments->links,
      "Instead of nodes, measure what collectives cost between the ranks of 'mpirun -n 2 braid profile --links'");
  command.add_option("--device", "DEVICE", &arguments->device, "Device; default: the config's");
  command.add_option("--batch-size", "N", &arguments->batch_size, "Batch size; default: the config's",
                     {.check = in_range(1, 1000000), .excludes = "--links"});
  command.add_option(
      "--runs", "N", &arguments->profiling.runs, "Steps to measure at each width (CPU)",
      {.check = in_range(1, 1000), .excludes = "--links", .shown_default = std::to_string(arguments->profiling.runs)});
  command.add_option("--pairs", "N", &arguments->profiling.pairs,
                     "Measure interference of up to N pairs of concurrent nodes, longest overlap first; 0: none",
                     {.check = in_range(0, 1000000),
                      .excludes = "--links",
                      .shown_default = std::to_string(arguments->profiling.pairs)});
  command.add_option("--streams", "N", &arguments->profiling.streams,
                     "Streams of the plans that determine which nodes run concurrently; default: 2, 4 and 8",
                     {.check = in_range(1, 64), .excludes = "--links"});
  command.footer =
      "Example:\n  braid profile resnet18 -o profile.json --batch-size 8\n  braid plan resnet18 --profile profile.json";
  command.run = [arguments] { arguments->links ? profile_links(*arguments) : profile(*arguments); };
}

}  // namespace braid::apps
