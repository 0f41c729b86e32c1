#include "runtime/profile/profiler.h"

#include "core/base/median.h"
#include "runtime/compile/planner.h"

namespace braid {

SessionOptions profiling_options(SessionOptions options, int width) {
  options.streams = 1;
  options.policy = "serial";
  options.intra_op_threads = width;
  options.profile.clear();
  return options;
}

Profiler::Profiler(Session& session) : session_(session) {
  const SessionOptions& options = session.options();
  BRAID_CHECK(options.streams == 1 && options.intra_op_threads >= 1, Error,
              "[profiler] expected a session of one stream, where nodes run alone, and a fixed width, got streams = ",
              options.streams, " and intra_op_threads = ", options.intra_op_threads);
}

void Profiler::run(Step& step) {
  const bool tf32 = rounds_to_tf32(session_.options(), session_.backend().info());
  const auto [times, clock] = step.measure();
  clock_ = clock;
  for (const LaunchTime& time : times) {
    const scheduler::Cost& chosen = step.chosen(time.index);
    scheduler::NodeImplementation implementation{scheduler::node_signature(step.graph(), time.index, tf32),
                                                 chosen.width, chosen.algorithm};
    microseconds_[std::move(implementation)].push_back(time.finish - time.start);
  }
}

scheduler::Profile Profiler::profile() const {
  const DeviceInfo& device = session_.backend().info();
  scheduler::Profile profile{.device = device.name, .capacity = device.capacity, .clock = std::string(clock_)};
  for (const auto& [implementation, samples] : microseconds_) {
    profile.measurements.push_back({implementation, median(samples), static_cast<int>(samples.size())});
  }
  return profile;
}

scheduler::Profile profile_nodes(Session& session) {
  const DeviceInfo& device = session.backend().info();
  const KernelTarget target = kernel_target(session, session.options());
  const StepGraph graph = as_planned(session.tape().graph(), device, {}, target.direct).graph;
  scheduler::Costs costs = cost_model(session.options(), device).costs(graph);
  const NodeKernels kernels = make_kernels(graph, target, costs);
  const std::unique_ptr<StreamGroup> streams = session.backend().make_streams({.count = 1});
  KernelTimer timer(session.backend(), *streams);
  timer.time(graph, kernels, costs, target.tf32, 1);
  scheduler::Profile profile{.device = device.name, .capacity = device.capacity, .clock = timer.clock()};
  for (const auto& [implementation, timing] : timer.timings()) {
    profile.measurements.push_back({implementation, timing.microseconds, timing.samples});
  }
  return profile;
}

}  // namespace braid
