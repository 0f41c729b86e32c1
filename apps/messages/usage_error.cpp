#include "apps/messages/usage_error.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "train/config/similar_keys.h"

namespace braid::apps {
namespace {

/// "--quiet" for an option, "CONFIG" for a positional argument.
std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_type_name() : option.get_name();
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional()) names.push_back(name_of(*option));
  }
  return names;
}

/// "--set optimizer.lr=VALUE" if the option is a key of the config; or nothing.
std::string as_override(const std::vector<std::string>& similar) {
  const auto keys = config_keys();
  std::string text;
  for (std::string key : similar) {
    const bool section = std::ranges::any_of(keys, [&](auto other) { return other.starts_with(key + '.'); });
    if (section) key += ".name";
    if (std::ranges::find(keys, key) != keys.end())
      text += message(text.empty() ? "" : " or ", "--set ", key, "=VALUE");
  }
  return text;
}

std::string unknown_option(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  const std::string what = message("there is no option '", option, "'");
  const bool takes_keys = command.get_option_no_throw("--set") != nullptr;
  const std::vector<std::string> keys =
      takes_keys ? similar_keys(option.substr(std::min(option.find_first_not_of('-'), option.size())))
                 : std::vector<std::string>{};
  const bool is_key = std::ranges::any_of(keys, [&](const auto& key) { return "--" + key == option; });
  if (const std::string near = suggestion(option, option_names(command)); !near.empty() && !is_key) return what + near;
  std::vector<std::string> others;
  for (const CLI::App* other : app.get_subcommands({})) {
    if (other->get_option_no_throw(option) != nullptr) others.push_back("'braid " + other->get_name() + '\'');
  }
  if (&command == &app) return what + (others.empty() ? "" : " before the command; options come after it");
  if (const std::string override = as_override(keys); !override.empty()) {
    return message(what, "; to change the config: ", override);
  }
  return what + (others.empty() ? "" : " here, only for " + comma_list(others));
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = names_of(app.get_subcommands({}));
  return message("there is no command '", word, '\'', suggestion(word, names), "; there are ", comma_list(names));
}

/// `words` are the leftover arguments, in order.
std::string unexpected(const CLI::App& app, const CLI::App& command, const std::vector<std::string>& words) {
  const std::string& first = words.front();
  if (first.starts_with('-') && first.size() > 1) return unknown_option(app, command, first);
  if (&command == &app && app.get_subcommands().empty()) return unknown_command(app, first);
  std::string list;
  for (const std::string& word : words) list += message(list.empty() ? "'" : " '", word, '\'');
  const bool assigns = first.find('=') != std::string::npos && command.get_option_no_throw("--set") != nullptr;
  return message(words.size() == 1 ? "unexpected argument " : "unexpected arguments ", list,
                 assigns ? message("; repeat --set for each override: --set ", first) : "");
}

std::string missing(const CLI::App& app, const CLI::App& command) {
  if (&command == &app) return "expected a command: " + comma_list(names_of(app.get_subcommands({})));
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    return message("expected ", name_of(*option), option->nonpositional() ? ' ' + option->get_type_name() : "", ": ",
                   option->get_description());
  }
  return "";
}

/// `text` begins with the name of the option that it is about.
std::string mismatch(const CLI::App& command, const std::string& text) {
  const std::string word = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = command.get_option_no_throw(word.starts_with('-') ? word : "--" + word);
  if (option == nullptr) return text;
  const std::string name = name_of(*option);
  if (option->count() > 1) return message(name, " was given ", option->count(), " times; expected it once");
  if (option->get_expected_max() == 0) return message(name, " takes no value");
  return message(name, " expects a value: ", name, ' ', option->get_type_name());
}

}  // namespace

std::string usage_error(const CLI::App& app, const std::exception& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App* command = parsed.empty() ? &app : parsed.front();
  const bool incomplete = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) what = mismatch(*command, what);
  if (incomplete) what = missing(app, *command);
  if (incomplete || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const CLI::App* at : {&app, command}) {
      std::vector<std::string> words = at->remaining();
      std::erase(words, "--");
      if (words.empty()) continue;
      what = unexpected(app, *at, words);
      command = at;
      break;
    }
  }
  return message(what, "\nSee 'braid ", command == &app ? "" : command->get_name() + ' ', "--help'.");
}

}  // namespace braid::apps
