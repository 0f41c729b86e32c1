#include "apps/messages/print_error.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "core/base/error.h"
#include "core/comm/launch.h"

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

/// "rank 2: " if there are several.
std::string own_rank() {
  try {
    const Launch launch = launch_from_environment();
    return launch.size > 1 ? message("rank ", launch.rank, ": ") : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void print_error(std::string_view what) {
  const bool colours = has_colours();
  // In one piece, because other ranks may print at the same time.
  std::cerr << message(colours ? "\x1b[1;31m" : "", "braid: error:", colours ? "\x1b[0m " : " ", own_rank(), what,
                       '\n');
}

}  // namespace braid::apps
