#pragma once
// What `braid --help` and `braid COMMAND --help` print.

#include "apps/command_line.h"

namespace braid::apps {

/// Wraps lines at kTextWidth columns. `name` is what precedes --help.
std::string help(const Command& command, const std::string& name);

/// "-q" and "--quiet" of an option; nothing of a positional argument.
std::vector<std::string> names_of(const Option& option);

/// "-o, --output FILE" for an option, "CONFIG" for a positional argument.
std::string label(const Option& option);

/// A line of a list, whose description begins at a fixed column.
std::string help_entry(const std::string& name, const std::string& description);

/// All exit statuses and their meanings, formatted by `entry`.
std::string exit_statuses(std::string (*entry)(const std::string& status, const std::string& meaning));

}  // namespace braid::apps
