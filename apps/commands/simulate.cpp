#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/simulation/simulated_training.h"
#include "core/base/error.h"
#include "core/text/text.h"

namespace braid::apps {

void add_simulate(Command& app) {
  struct Arguments {
    ConfigArguments config;
    std::uint64_t seed = 0;
    int seeds = 1, ranks = 3;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("simulate", "Train in a simulated cluster in which ranks, links and disks fail");
  arguments->config.add_to(command, "Config file (YAML) with parallel.virtual_ranks; without one, a small network", {});
  command.add_option("--ranks", "N", &arguments->ranks, "Ranks of the first attempt; later ones have as many or fewer",
                     {.check = in_range(1, static_cast<int>(simulation::kMostRanks)), .shown_default = "3"});
  command.add_option("--seed", "S", &arguments->seed, "Seed of the faults and of the order in which threads run",
                     {.shown_default = "0"});
  command.add_option("--seeds", "N", &arguments->seeds, "Number of seeds to try, starting at --seed",
                     {.check = in_range(1, 1'000'000'000), .shown_default = "1"});
  command.footer = "Example:\n  braid simulate --seed 17";
  command.run = [arguments, &app] {
    int failed = 0;
    try {
      simulation::SimulatedTraining training(arguments->config.path, arguments->config.overrides, arguments->ranks);
      for (int i = 0; i < arguments->seeds; ++i) {
        const std::uint64_t seed = arguments->seed + static_cast<std::uint64_t>(i);
        try {
          std::cout << message("seed ", seed, training.run(seed), '\n') << std::flush;
        } catch (const Error& error) {
          ++failed;
          std::cout << message("seed ", seed, error.what(), "\n") << std::flush;
        }
      }
    } catch (const simulation::Interrupted& interrupted) {
      app.exit_code = kSignalled + interrupted.signal;
      return;
    }
    if (arguments->seeds > 1) {
      std::cout << message(arguments->seeds - failed, " of ", plural(arguments->seeds, "seed"),
                           " ended with the right weights\n");
    }
    if (failed > 0) app.exit_code = kFailed;
  };
}

}  // namespace braid::apps
