#include "apps/messages.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "core/comm/launch.h"
#include "core/device/backend.h"
#include "core/text/text.h"
#include "runtime/device_check.h"
#include "train/run/factories.h"

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
  // Prints in one piece, because other ranks may print at the same time.
  std::cerr << message(colours ? "\x1b[1;31m" : "", "braid: error:", colours ? "\x1b[0m " : " ", own_rank(), what,
                       '\n');
}

void warn_about(const SessionOptions& session, int workers) {
  const auto [device, report] = find_device(session.device);
  if (!report.empty()) std::cerr << "braid: warning: " << report << '\n';
  const int cores = make_backend(Device{})->info().capacity;
  const auto warn = [&](std::string_view key, int threads, std::string_view advice) {
    if (threads <= cores) return;
    std::cerr << "braid: warning: " << key << " asks for " << plural(threads, "thread") << " on "
              << plural(cores, "core") << ": they will slow each other down. " << advice << '\n';
  };
  if (device.type == DeviceType::cpu) {
    warn("threads", session.threads, "'threads: all' uses every core once");
  }
  warn("data.workers", workers, "One or two are usually enough");
}

void warn_about(const RunConfig& config) {
  int workers = 0;
  for (const JobConfig& job : config.jobs) workers = std::max(workers, job.training.data.workers);
  warn_about(session_options(config.jobs.front().training), workers);  // with the rank's own GPU
}

}  // namespace braid::apps
