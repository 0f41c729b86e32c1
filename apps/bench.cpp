#include "train/bench.h"

#include <iostream>
#include <memory>

#include "apps/commands.h"

namespace braid::apps {

void add_bench(CLI::App& app, int& exit_code) {
  struct Arguments {
    ConfigArguments config;
    std::int64_t steps = 30;
    bool json = false, serve = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("bench", "Time training steps on one batch");
  arguments->config.add_to(*command);
  command->add_option("--steps", arguments->steps, "Steps to time")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one line of JSON");
  command->add_flag("--serve", arguments->serve, "Read lines 'run N' and answer each with one line of JSON");
  command->callback([arguments, &exit_code] {
    Bench bench(read_train_config(arguments->config.path, arguments->config.overrides));
    bench.warm_up();
    exit_code = kOk;
    if (arguments->serve) return serve(bench, std::cin, std::cout);
    const BenchTimes times = bench.run(arguments->steps);
    const BenchSetting setting = bench.setting();
    std::cout << (arguments->json ? to_json(setting, times) + '\n' : to_text(setting, times));
  });
}

}  // namespace braid::apps
