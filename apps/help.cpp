#include "apps/help.h"

#include <csignal>

#include "apps/commands.h"
#include "core/error.h"
#include "core/text_table.h"

namespace braid::apps {
namespace {

constexpr std::size_t kColumn = 26;  // where descriptions begin

}  // namespace

std::string help_entry(const std::string& name, const std::string& description) {
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

std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_type_name() : option.get_name();
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description() + '.') + "\n\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "Usage: " + name + (app->get_subcommands({}).empty() ? "" : " COMMAND") + " [OPTIONS]";
  for (const CLI::Option* option : app->get_options([](const auto* option) { return option->get_positional(); })) {
    usage += ' ' + name_of(*option);
  }
  return usage + '\n';
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name =
      CLI::detail::find_and_replace(is_positional ? name_of(*option) : option->get_name(false, true), ",", ", ");
  if (!is_positional && !is_flag(*option)) name += ' ' + option->get_type_name();
  const std::string value = option->get_default_str();
  const bool required = option->get_required() && !is_positional;
  return help_entry(name, message(option->get_description(), value.empty() ? "" : " (default: " + value + ')',
                                  required ? " (required)" : ""));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return help_entry(command->get_name(), command->get_description());
}

}  // namespace braid::apps
