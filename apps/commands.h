#pragma once
// The subcommands of braid, one file each. Each function adds its subcommand. Those that may end with another exit code
// than kOk without an exception leave it in `exit_code`.

#include <CLI/CLI.hpp>

namespace braid::apps {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;       ///< an error, reported on standard error
inline constexpr int kUsage = 2;        ///< an invalid command line
inline constexpr int kSignalled = 128;  ///< plus the signal that ended training, as in shells: 130 for Ctrl-C

void add_init(CLI::App& app);
void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app);
void add_report(CLI::App& app);
void add_export(CLI::App& app);
void add_predict(CLI::App& app, int& exit_code);
void add_sample(CLI::App& app);
void add_bench(CLI::App& app);
void add_summary(CLI::App& app);
void add_profile(CLI::App& app);
void add_plan(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app);
void add_config(CLI::App& app);
void add_data(CLI::App& app);
void add_devices(CLI::App& app, int& exit_code);
void add_models(CLI::App& app);
void add_datasets(CLI::App& app);
void add_launch(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app);

/// Adds the options that all commands with a config share: the file itself, which `description` describes, --set and
/// --costs.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;
  void add_to(CLI::App& command, const std::string& description = "Config file (YAML)", bool required = true) {
    command.add_option("config", path, description)->type_name("CONFIG")->required(required);
    add_overrides_to(command);
  }
  void add_overrides_to(CLI::App& command) {
    command.add_option("--set", overrides, "Override a key of the config, for example train.epochs=3; can be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false)
        ->take_all();
    command
        .add_option_function<std::string>(
            "--costs", [this](const std::string& file) { overrides.push_back("costs=" + file); },
            "Durations measured by 'braid profile'; same as --set costs=FILE")
        ->type_name("FILE");
  }
};

}  // namespace braid::apps
