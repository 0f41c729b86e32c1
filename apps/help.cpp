#include "apps/help.h"

#include <csignal>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/text/text.h"
#include "core/text/text_table.h"

namespace braid::apps {

namespace {

/// "-q" and "--quiet" of an option; nothing of a positional argument.
std::vector<std::string> names_of(const Option& option) {
  return split_text(option.is_positional() ? "" : option.names, ',');
}

/// "-o, --output FILE" for an option, "CONFIG" for a positional argument.
std::string label(const Option& option) {
  if (option.is_positional()) return option.value;
  return comma_list(names_of(option)) + (option.is_flag() ? "" : ' ' + option.value);
}

}  // namespace

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

/// A positional option in a line of usage.
std::string argument(const Option& option) {
  return option.is_required() ? ' ' + option.value : " [" + option.value + ']';
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
    if (option.is_positional()) usage += argument(option);
  }
  for (const Command& other : command.commands) commands += help_entry(other.name, other.description);
  if (!arguments.empty()) arguments = "\nArguments:\n" + arguments;
  if (!commands.empty()) commands = "\nCommands:\n" + commands;
  return wrapped(command.description + '.') + "\n\n" + usage + '\n' + arguments + "\nOptions:\n" + options + commands +
         '\n' + command.footer + '\n';
}

namespace {

/// The text with a backslash before each of these characters.
std::string escaped(const std::string& text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// The text between single quotes, as shells read it.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void print_bash(const Command& app) {
  const std::string commands = comma_list(app.commands, " ", &Command::name);
  std::string cases;
  for (const Command& command : app.commands) {
    std::string options;
    for (const Option& option : command.options) {
      for (const std::string& name : names_of(option)) options += (options.empty() ? "" : " ") + name;
    }
    cases += "    " + command.name + ") words='" + options + "' ;;\n";
  }
  std::cout << "# Completion of braid's commands and options in bash: source this file.\n"
               "_braid() {\n"
               "  local current=${COMP_WORDS[COMP_CWORD]} words=\n"
               "  COMPREPLY=()\n"
               "  case ${COMP_WORDS[1]} in\n"
            << cases
            << "  esac\n"
               "  ((COMP_CWORD > 1)) || words='"
            << commands
            << "'\n"
               "  if [[ $COMP_CWORD -eq 1 || $current == -* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
               "  fi\n"
               "}\n"
               "complete -o default -F _braid braid\n";
}

void print_zsh(const Command& app) {
  std::cout << "#compdef braid\n"
               "# Completion of braid's commands and options in zsh: a file named _braid in a folder of $fpath.\n"
               "_braid() {\n"
               "  local -a commands=(\n";
  for (const Command& command : app.commands) {
    std::cout << "    " << quoted(command.name + ':' + command.description) << '\n';
  }
  std::cout << "  )\n"
               "  if ((CURRENT == 2)); then\n"
               "    _describe command commands\n"
               "    return\n"
               "  fi\n"
               "  case $words[2] in\n";
  for (const Command& command : app.commands) {
    std::cout << "    " << command.name << ")\n      _arguments";
    for (const Option& option : command.options) {
      for (const std::string& name : names_of(option)) {
        const std::string value = option.is_flag() ? "" : ':' + escaped(option.value, ":\\") + ":_files";
        std::cout << " \\\n        " << quoted(name + '[' + escaped(option.help, "[]:\\") + ']' + value);
      }
    }
    std::cout << " \\\n        '*:file:_files' ;;\n";
  }
  std::cout << "  esac\n"
               "}\n"
               "_braid \"$@\"\n";
}

/// Text of a man page: no line of it is a request.
std::string roff(const std::string& text) {
  std::string out = escaped(text, "\\-");
  for (std::size_t at = 0; at < out.size();
       at = out.find('\n', at) == std::string::npos ? out.size() : out.find('\n', at) + 1) {
    if (out[at] == '.' || out[at] == '\'') out.insert(at, "\\&");
  }
  return out;
}

std::string man_entry(const std::string& name, const std::string& text) {
  return ".TP\n.B " + roff(name) + '\n' + roff(text) + ".\n";
}

void print_man_page(const Command& app) {
  std::cout << ".TH BRAID 1 \"\" \"braid " BRAID_VERSION "\"\n.SH NAME\nbraid \\- " << roff(app.description)
            << "\n.SH SYNOPSIS\n.B braid\n.I COMMAND\n[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const Command& command : app.commands) {
    std::string usage = "braid " + command.name;
    for (const Option& option : command.options) {
      if (option.is_positional()) usage += argument(option);
    }
    std::cout << ".SS \"" << roff(usage) << "\"\n" << roff(command.description) << ".\n";
    for (const Option& option : command.options) {
      std::cout << man_entry(label(option), option.help);
    }
    if (!command.footer.empty()) std::cout << ".PP\n.nf\n" << roff(command.footer) << "\n.fi\n";
  }
  std::cout << ".SH EXIT STATUS\n" << exit_statuses(man_entry);
}

}  // namespace

void add_completion(Command& app) {
  const auto kind = std::make_shared<std::string>();
  Command& command = app.add_command("completion", "Print the completion for a shell, or the man page");
  command.add_option("kind", "KIND", kind.get(), "bash, zsh or man",
                     {.required = true, .check = one_of({"bash", "zsh", "man"})});
  command.footer = "Example:\n  braid completion bash > ~/.local/share/bash-completion/completions/braid";
  command.run = [&app, kind] {
    if (*kind == "bash") print_bash(app);
    if (*kind == "zsh") print_zsh(app);
    if (*kind == "man") print_man_page(app);
  };
}

}  // namespace braid::apps
