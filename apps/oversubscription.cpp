#include "apps/oversubscription.h"

#include <algorithm>
#include <iostream>

#include "core/backend.h"
#include "core/text.h"

namespace braid::apps {

void warn_of_oversubscription(const SessionOptions& session, int workers) {
  const int cores = make_backend(Device{})->info().capacity;
  const auto warn = [&](std::string_view key, int threads, std::string_view advice) {
    if (threads <= cores) return;
    std::cerr << "braid: warning: " << key << " asks for " << plural(threads, "thread") << " on "
              << plural(cores, "core") << ": they will slow each other down. " << advice << '\n';
  };
  if (Device::parse(session.device).type == DeviceType::cpu) {
    warn("threads", session.threads, "'threads: all' uses every core once");
  }
  warn("data.workers", workers, "One or two are usually enough");
}

void warn_of_oversubscription(const RunConfig& config) {
  int workers = 0;
  for (const JobConfig& job : config.jobs) workers = std::max(workers, job.training.data.workers);
  warn_of_oversubscription(config.jobs.front().training.session, workers);
}

}  // namespace braid::apps
