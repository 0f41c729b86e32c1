// Shell completions and the man page, made from the same declarations as the help.

#include <iostream>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/help.h"
#include "core/base/error.h"

namespace braid::apps {

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
  std::string commands, cases;
  for (const Command& command : app.commands) {
    commands += (commands.empty() ? "" : " ") + command.name;
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
      if (option.is_positional()) usage += ' ' + option.value;
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
  const auto check = [](const std::string& text) -> std::string {
    if (text == "bash" || text == "zsh" || text == "man") return "";
    return message("expected bash, zsh or man, got '", text, '\'');
  };
  Command& command = app.add_command("completion", "Print the completion for a shell, or the man page");
  command.add_option("kind", "KIND", kind.get(), "bash, zsh or man", {.required = true, .check = check});
  command.footer = "Example:\n  braid completion bash > ~/.local/share/bash-completion/completions/braid";
  command.run = [&app, kind] {
    if (*kind == "bash") print_bash(app);
    if (*kind == "zsh") print_zsh(app);
    if (*kind == "man") print_man_page(app);
  };
}

}  // namespace braid::apps
