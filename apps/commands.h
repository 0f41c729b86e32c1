#pragma once
// The subcommands of braid, one file each. Each function adds its subcommand.

#include "apps/command_line.h"

namespace braid::apps {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;       ///< an error, reported on standard error
inline constexpr int kUsage = 2;        ///< an invalid command line
inline constexpr int kSignalled = 128;  ///< plus the signal that ended training, as in shells: 130 for Ctrl-C

void add_init(Command& app);
void add_train(Command& app);
void add_eval(Command& app);
void add_report(Command& app);
void add_export(Command& app);
void add_predict(Command& app);
void add_sample(Command& app);
void add_bench(Command& app);
void add_summary(Command& app);
void add_profile(Command& app);
void add_plan(Command& app);
void add_explain(Command& app);
void add_config(Command& app);
void add_data(Command& app);
void add_devices(Command& app);
void add_models(Command& app);
void add_datasets(Command& app);
void add_launch(Command& app);
void add_simulate(Command& app);
void add_playground(Command& app);
void add_completion(Command& app);

/// Adds the options that all commands with a config share: the file itself, which `description` describes, --set and
/// --profile.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  void add_to(Command& command, const std::string& description = "Config file (YAML)",
              const Rules& rules = {.required = true}) {
    command.add_option("config", "CONFIG", &path, description, rules);
    add_overrides_to(command);
  }
  void add_overrides_to(Command& command) {
    command.add_option("--set", "KEY=VALUE", &overrides,
                       "Override a key of the config, for example train.epochs=3; can be repeated");
    command.add_option(
        "--profile", "FILE", [this](const std::string& file) { overrides.push_back("profile=" + file); },
        "Durations measured by 'braid profile'; same as --set profile=FILE");
  }
};

}  // namespace braid::apps
