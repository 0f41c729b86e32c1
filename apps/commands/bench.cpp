#include "train/inspect/bench/bench.h"

#include <iostream>
#include <memory>
#include <sstream>

#include "apps/commands.h"
#include "apps/config_or_model.h"
#include "apps/messages.h"
#include "train/inspect/bench/io_bench.h"
#include "train/inspect/bench/joint_bench.h"

namespace braid::apps {

void add_bench(Command& app) {
  struct Arguments {
    ConfigArguments config;
    std::int64_t steps = 30;
    bool json = false, serve = false, io = false, roofline = false;
    std::vector<std::string> variants;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("bench", "Time training steps on one batch");
  arguments->config.add_to(command, kConfigOrModel);
  command.add_option("--steps", "N", &arguments->steps, "Steps to time; with several jobs, rounds",
                     {.check = in_range(1, 1000000), .shown_default = std::to_string(arguments->steps)});
  command.add_flag("--json", &arguments->json, "Print one line of JSON");
  command.add_flag("--serve", &arguments->serve, "Read lines 'run N' and answer each with one line of JSON",
                   {.excludes = "--json"});
  command.add_flag("--io", &arguments->io,
                   "Time what loading, logging and saving add to a step, in 15 rounds of N steps of each kind",
                   {.excludes = "--serve"});
  command.add_flag("--roofline", &arguments->roofline,
                   "Compare the time of every op with the least that its arithmetic and its bytes could take, at peaks "
                   "that are measured first",
                   {.excludes = "--serve"});
  command.add_option("--variant", "'KEY=VALUE …'", &arguments->variants,
                     "One of several settings of the config that take turns in one process; a line 'use I' selects "
                     "variant I, counted from 0",
                     {.needs = "--serve"});
  command.footer =
      "With several jobs, compares training them together with training them one after\nanother.\n\n"
      "Example:\n  braid bench resnet20 --set data.image_size=32 --steps 10";
  command.run = [arguments] {
    if (arguments->roofline && arguments->io) throw UsageError("--roofline excludes --io");
    const RunConfig config = read_config_or_model(arguments->config);
    warn_about(config.jobs.front().training.session);  // nothing is loaded
    if (config.together) {
      const char* const alone = arguments->serve      ? "--serve"
                                : arguments->io       ? "--io"
                                : arguments->roofline ? "--roofline"
                                                      : nullptr;
      BRAID_CHECK(alone == nullptr, ConfigError, alone, " expects the config of a single job, got a list of jobs");
      JointBench bench(config);
      bench.warm_up();
      const JointBench::Times times = bench.run(arguments->steps);
      std::cout << (arguments->json ? to_json(times) + '\n' : to_text(times));
      return;
    }
    if (arguments->serve) {
      std::vector<std::unique_ptr<Bench>> benches;
      for (const std::string& variant :
           arguments->variants.empty() ? std::vector<std::string>{""} : arguments->variants) {
        ConfigArguments with = arguments->config;
        std::istringstream words(variant);
        for (std::string word; words >> word;) with.overrides.push_back(word);
        benches.push_back(std::make_unique<Bench>(read_config_or_model(with).jobs.front().training));
        benches.back()->warm_up();
      }
      return serve(benches, std::cin, std::cout);
    }
    const TrainConfig& training = config.jobs.front().training;
    if (arguments->io) {
      constexpr std::int64_t kRounds = 15;
      const IoBench::Times times = IoBench(training).run(kRounds, arguments->steps);
      std::cout << (arguments->json ? to_json(times, training) + '\n' : to_text(times, training));
      return;
    }
    Bench bench(training);
    bench.warm_up();
    const BenchTimes times = bench.run(arguments->steps);
    const double unread = bench.run_unread(arguments->steps);
    const BenchSetting setting = bench.setting();  // with the memory of training alone
    const auto print = [&](const auto& ops) {
      std::cout << (arguments->json ? to_json(setting, times, unread, ops) + '\n'
                                    : to_text(setting, times, unread, ops));
    };
    arguments->roofline ? print(bench.roofline()) : print(bench.op_times());
  };
}

}  // namespace braid::apps
