#pragma once
// What `braid --help` and `braid COMMAND --help` print.

#include <CLI/CLI.hpp>

namespace braid::apps {

/// Wraps lines at kTextWidth columns and leaves out CLI11's type names.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { label("Positionals", "Arguments"); }
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

/// "--quiet" for an option, "CONFIG" for a positional argument.
std::string name_of(const CLI::Option& option);

/// A line of a list, whose description begins at a fixed column.
std::string help_entry(const std::string& name, const std::string& description);

/// All exit statuses and their meanings, formatted by `entry`.
std::string exit_statuses(std::string (*entry)(const std::string& status, const std::string& meaning));

inline bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

}  // namespace braid::apps
