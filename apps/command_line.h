#pragma once
// Commands and their options as plain values. Parser and help are made from them. Only the parser
// includes CLI11, which takes longer to compile than most commands.

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace braid::apps {

/// Where the value of an option goes. A list receives one value each time its option is given, or all values of a
/// positional argument.
using Target = std::variant<std::monostate,  // prints the help
                            const char*,     // prints this text
                            bool*, int*, std::int64_t*, std::uint64_t*, double*, std::optional<std::uint16_t>*,
                            std::string*, std::vector<std::string>*, std::function<void(const std::string&)>>;

/// Returns the error of a value, or "".
using Check = std::function<std::string(const std::string&)>;

/// A plain decimal number; CLI11 would read 010 as octal.
Check in_range(int min, int max);
Check in_range(double min, double max);
/// One of at least two words.
Check one_of(const std::vector<std::string>& words);

/// What restricts an option. `needs` and `excludes` name an option like "--json", which must be added before.
struct Rules {
  bool required = false;
  const bool* unless = nullptr;  ///< target of a flag that makes the option optional
  Check check = {};
  std::string needs = {}, excludes = {};
  std::string shown_default = {};  ///< in the help
};

struct Option {
  std::string names;  ///< "-o,--output"; without dashes for a positional argument
  std::string value;  ///< "FILE"; empty for a flag
  Target target;
  std::string help;
  Rules rules = {};

  bool is_flag() const { return value.empty(); }
  bool is_positional() const { return !names.starts_with('-'); }
  bool is_required() const { return rules.required && (rules.unless == nullptr || !*rules.unless); }
};

/// A command, or the program with its commands.
struct Command {
  std::string name, description;
  std::string footer = {};
  std::vector<Option> options = {{"-h,--help", "", {}, "Print this help and exit"}};
  std::vector<Command> commands = {};
  std::function<void()> run = {};
  int exit_code = 0;  ///< of the program: a command that fails without an exception leaves it here

  void add_option(const std::string& names, const std::string& value, const Target& target, const std::string& help,
                  const Rules& rules = {});
  void add_flag(const std::string& names, const Target& target, const std::string& help, const Rules& rules = {}) {
    add_option(names, "", target, help, rules);
  }
  /// The reference is valid until the next command is added.
  Command& add_command(const std::string& its_name, const std::string& its_description);
};

/// An invalid command line. Commands may throw it, too.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses the program's arguments, then runs a command or prints the help. Throws UsageError, to which it adds a second
/// line that names the help.
void parse_and_run(const Command& program, const std::vector<const char*>& words);

/// Parses the options of one command, ignores other words, and runs nothing. Only for commands that parse_and_run()
/// runs, as it explains the errors.
void parse_some(const Command& command, const std::vector<std::string>& words);

}  // namespace braid::apps
