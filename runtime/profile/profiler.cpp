#include "runtime/profile/profiler.h"

#include "core/median.h"

namespace braid {

SessionOptions profiling_options(SessionOptions options, int width) {
  options.streams = 1;
  options.policy = "serial";
  options.width = width;
  options.costs.clear();
  return options;
}

Profiler::Profiler(Session& session) : session_(session) {
  const SessionOptions& options = session.options();
  BRAID_CHECK(options.streams == 1 && options.width >= 1, Error,
              "[profiler] expected a session of one stream, where nodes run alone, and a fixed width, got streams = ",
              options.streams, " and width = ", options.width);
}

void Profiler::run(Step& step) {
  const bool tf32 = rounds_to_tf32(session_.options(), session_.backend().info());
  const std::vector<LaunchTime> times = step.measure();
  for (const LaunchTime& time : times) {
    const scheduler::Cost& chosen = step.chosen(time.index);
    scheduler::NodeImplementation way{scheduler::node_signature(step.graph(), time.index, tf32),
                                      chosen.width, chosen.algorithm};
    microseconds_[std::move(way)].push_back(time.finish - time.start);
  }
}

scheduler::Profile Profiler::profile() const {
  const DeviceInfo& device = session_.backend().info();
  scheduler::Profile profile{.device = device.name, .capacity = device.capacity, .software = ""};
  for (const auto& [way, samples] : microseconds_) {
    profile.measurements.push_back(
        {.implementation = way, .microseconds = median(samples), .samples = static_cast<int>(samples.size())});
  }
  return profile;
}

}  // namespace braid
