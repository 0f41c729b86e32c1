#include "apps/messages/warnings.h"

#include <algorithm>
#include <iostream>

#include "core/device/backend.h"
#include "core/text/text.h"
#include "runtime/device_check.h"
#include "train/run/factories.h"

namespace braid::apps {

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
