#include "apps/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <span>
#include <type_traits>

#include "apps/help.h"
#include "core/base/error.h"
#include "core/text/suggestion.h"
#include "core/text/text.h"
#include "train/config/similar_keys.h"

namespace braid::apps {
namespace {

template <class Number>
Check number_in_range(Number min, Number max) {
  return [min, max](const std::string& text) -> std::string {
    constexpr bool kInteger = std::is_integral_v<Number>;
    Number value{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    const bool plain = error == std::errc() && end == last && (!kInteger || std::to_string(value) == text);
    if (plain && min <= value && value <= max) return "";
    return message("expected ", kInteger ? "an integer" : "a number", " from ", min, " to ", max, ", got '", text,
                   '\'');
  };
}

std::string not_empty(const std::string& text) { return text.empty() ? "expected a value, got ''" : ""; }

CLI::Option* add(CLI::App& parser, const Command& command, const Option& option) {
  const auto add_target = [&](auto target) -> CLI::Option* {
    using T = decltype(target);
    if constexpr (std::is_same_v<T, std::monostate>) {
      return parser.set_help_flag(option.names, option.help);
    } else if constexpr (std::is_same_v<T, const char*>) {
      return parser.set_version_flag(option.names, target, option.help);
    } else if constexpr (std::is_same_v<T, bool*>) {
      const auto set = [target, &parser, &command] {
        *target = true;
        for (const Option& other : command.options) {
          const std::string first_name = other.names.substr(0, other.names.find(','));
          if (other.rules.unless == target) parser.get_option(first_name)->required(false);
        }
      };
      return parser.add_flag_callback(option.names, set, option.help);
    } else if constexpr (std::is_pointer_v<T>) {
      return parser.add_option(option.names, *target, option.help);
    } else {
      return parser.add_option_function(option.names, target, option.help);
    }
  };
  return std::visit(add_target, option.target);
}

void add_options(CLI::App& parser, const Command& command) {
  for (const Option& option : command.options) {
    CLI::Option* added = add(parser, command, option);
    if (!option.is_flag()) added->type_name(option.value)->required(option.rules.required);
    if (!option.is_positional() && std::holds_alternative<std::vector<std::string>*>(option.target)) {
      added->allow_extra_args(false)->take_all();
    }
    if (option.rules.check) added->check(option.rules.check);
    if (!option.rules.needs.empty()) added->needs(option.rules.needs);
    if (!option.rules.excludes.empty()) added->excludes(option.rules.excludes);
  }
}

void add_commands(CLI::App& parser, const Command& program) {
  for (const Command& command : program.commands) {
    CLI::App* added = parser.add_subcommand(command.name);
    add_options(*added, command);
    for (CLI::Option* option : added->get_options()) {
      option->get_expected_max() == 0 ? option->disable_flag_override() : option->check(not_empty);
    }
    added->formatter_fn([&command](auto*, const std::string& name, auto) { return help(command, name); });
    added->callback(command.run);
  }
}

// ---- what is wrong with a command line

/// "--quiet" for an option, "CONFIG" for a positional argument.
std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_type_name() : option.get_name();
}

std::vector<std::string> command_names(const std::vector<const CLI::App*>& commands) {
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
  for (const std::string& key : keys) {
    if (command.get_option_no_throw("--" + key) != nullptr) return message(what, " (did you mean '--", key, "'?)");
  }
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
  const std::vector<std::string> names = command_names(app.get_subcommands({}));
  return message("there is no command '", word, '\'', suggestion(word, names), "; there are ", comma_list(names));
}

/// `words` are the leftover arguments, in order.
std::string unexpected(const CLI::App& app, const CLI::App& command, const std::vector<std::string>& words) {
  const std::string& first = words.front();
  if (first.starts_with('-') && first.size() > 1) return unknown_option(app, command, first);
  if (&command == &app && app.get_subcommands().empty()) return unknown_command(app, first);
  const std::string list = comma_list(words, " ", [](const std::string& word) { return '\'' + word + '\''; });
  const bool assigns = first.find('=') != std::string::npos && command.get_option_no_throw("--set") != nullptr;
  return message(words.size() == 1 ? "unexpected argument " : "unexpected arguments ", list,
                 assigns ? message("; repeat --set for each override: --set ", first) : "");
}

std::string missing(const CLI::App& app, const CLI::App& command) {
  if (&command == &app) return "expected a command: " + comma_list(command_names(app.get_subcommands({})));
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

/// Two lines that explain why the app could not parse the command line and name the help, without the last line break.
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

}  // namespace

Check in_range(int min, int max) { return number_in_range(min, max); }

Check in_range(double min, double max) { return number_in_range(min, max); }

Check one_of(const std::vector<std::string>& words) {
  return [words](const std::string& text) -> std::string {
    if (std::ranges::count(words, text) > 0) return "";
    return message("expected ", comma_list(std::span(words).first(words.size() - 1)), " or ", words.back(), ", got '",
                   text, '\'');
  };
}

void Command::add_option(const std::string& names, const std::string& value, const Target& target,
                         const std::string& help, const Rules& rules) {
  options.push_back({names, value, target, help, rules});
}

Command& Command::add_command(const std::string& its_name, const std::string& its_description) {
  return commands.emplace_back(Command{its_name, its_description});
}

void parse_and_run(const Command& program, const std::vector<const char*>& words) {
  CLI::App parser("", program.name);
  parser.require_subcommand(1);
  parser.formatter_fn([&program](auto*, const std::string& name, auto) { return help(program, name); });
  add_options(parser, program);
  add_commands(parser, program);
  try {
    parser.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& asked) {
    parser.exit(asked);  // prints the help or the version
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_error(parser, error));
  } catch (const UsageError& error) {
    throw UsageError(usage_error(parser, error));
  }
}

void parse_some(const Command& command, const std::vector<std::string>& words) {
  CLI::App parser;
  add_options(parser, command);
  parser.allow_extras();
  parser.parse(std::vector(words.rbegin(), words.rend()));  // CLI11 takes them from the end
}

}  // namespace braid::apps
