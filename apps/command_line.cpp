#include "apps/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <type_traits>

#include "apps/help.h"
#include "apps/messages/usage_error.h"
#include "core/base/error.h"

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

}  // namespace

Check in_range(int min, int max) { return number_in_range(min, max); }

Check in_range(double min, double max) { return number_in_range(min, max); }

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
