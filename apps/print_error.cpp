#include "apps/print_error.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace braid::apps {

namespace {

bool has_colours() {
  const auto setting = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const std::string_view terminal = setting("TERM");
  return isatty(STDERR_FILENO) == 1 && setting("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
}

}  // namespace

void print_error(std::string_view what) {
  const bool colours = has_colours();
  std::cerr << (colours ? "\x1b[1;31m" : "") << "braid: error:" << (colours ? "\x1b[0m " : " ") << what << '\n';
}

}  // namespace braid::apps
