#pragma once
// What the program prints about its commands: help, shell completions and the man page, all made from the declarations.

#include "apps/command_line.h"

namespace braid::apps {

/// What `braid --help` and `braid COMMAND --help` print. Wraps lines at kTextWidth columns. `name` is what precedes
/// --help.
std::string help(const Command& command, const std::string& name);

/// A line of a list, whose description begins at a fixed column.
std::string help_entry(const std::string& name, const std::string& description);

/// All exit statuses and their meanings, formatted by `entry`.
std::string exit_statuses(std::string (*entry)(const std::string& status, const std::string& meaning));

}  // namespace braid::apps
