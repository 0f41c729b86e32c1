#include "apps/help.h"

#include <csignal>
#include <sstream>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "core/text/text_table.h"

namespace braid::apps {

std::string help_entry(const std::string& name, const std::string& description) {
  constexpr std::size_t kColumn = 26;  // where descriptions begin
  const std::string left = "  " + name;
  const std::string gap = left.size() + 2 <= kColumn ? std::string(kColumn - left.size(), ' ') : "\n";
  return wrapped(left + gap + description, kColumn) + '\n';
}

std::string exit_statuses(std::string (*entry)(const std::string& status, const std::string& meaning)) {
  return entry(message(kOk), "success") +
         entry(message(kFailed),
               "an error, which standard error explains; also if one of several jobs failed, or if a plan "
               "does not fit") +
         entry(message(kUsage), "an invalid command line") +
         entry(message(kSignalled, " + N"), message("signal N ended a training, which is saved: ", kSignalled + SIGINT,
                                                    " after Ctrl-C, ", kSignalled + SIGTERM, " after SIGTERM"));
}

std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names;
  std::istringstream list(option.is_positional() ? "" : option.names);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

std::string label(const Option& option) {
  if (option.is_positional()) return option.value;
  return comma_list(names_of(option)) + (option.is_flag() ? "" : ' ' + option.value);
}

std::string help(const Command& command, const std::string& name) {
  std::string usage = "Usage: " + name + (command.commands.empty() ? "" : " COMMAND") + " [OPTIONS]";
  std::string arguments, options, commands;
  for (const Option& option : command.options) {
    const std::string& value = option.rules.shown_default;
    const bool required = option.is_required() && !option.is_positional();
    const std::string entry = help_entry(
        label(option),
        message(option.help, value.empty() ? "" : " (default: " + value + ')', required ? " (required)" : ""));
    (option.is_positional() ? arguments : options) += entry;
    if (option.is_positional()) usage += ' ' + option.value;
  }
  for (const Command& other : command.commands) commands += help_entry(other.name, other.description);
  if (!arguments.empty()) arguments = "\nArguments:\n" + arguments;
  if (!commands.empty()) commands = "\nCommands:\n" + commands;
  return wrapped(command.description + '.') + "\n\n" + usage + '\n' + arguments + "\nOptions:\n" + options + commands +
         '\n' + command.footer + '\n';
}

}  // namespace braid::apps
