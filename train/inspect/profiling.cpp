#include "train/inspect/profiling.h"

#include "runtime/profile/profiler.h"
#include "train/inspect/bench.h"

namespace braid {

namespace {

scheduler::Profile profile_width(const TrainConfig& config, const Dataset& dataset, const Batch& batch, int width,
                                 int runs) {
  constexpr int kWarm = 2;
  Session session(profiling_options(config.session, width));
  Learner learner(config, session, dataset);
  for (int i = 0; i < kWarm; ++i) {
    Step step = session.step();
    learner.record(batch);
    step.run();
  }
  Profiler profiler(session);
  for (int i = 0; i < runs; ++i) {
    Step step = session.step();
    learner.record(batch);
    profiler.run(step);
  }
  return profiler.profile();
}

/// The pairs of a step that is recorded but not run.
void profile_pairs(const TrainConfig& config, const Dataset& dataset, const Batch& batch,
                   const ProfilingOptions& options, scheduler::Profile& profile) {
  SessionOptions recording = config.session;
  recording.costs.clear();
  Session session(recording);
  Learner learner(config, session, dataset);
  const Step step = session.step();
  learner.record(batch);
  std::vector<int> streams = {2, 4, 8};
  std::erase_if(streams, [&](int count) { return count > session.backend().info().capacity; });
  if (options.streams > 0) streams = {options.streams};
  profile_pairs(session, streams, static_cast<std::size_t>(options.pairs), options.on_pair, profile);
}

}  // namespace

scheduler::Profile profile_training(const TrainConfig& config, const ProfilingOptions& options) {
  BRAID_CHECK(options.runs >= 1, Error, "[profile] expected at least 1 run, got ", options.runs);
  BRAID_CHECK(options.pairs >= 0, Error, "[profile] expected at least 0 pairs, got ", options.pairs);
  BRAID_CHECK(options.streams >= 0, Error, "[profile] expected at least 0 streams, got ", options.streams);
  const auto dataset = DatasetPool().get(config, Split::train);
  const Batch batch = first_batch(dataset, config);
  const std::unique_ptr<Backend> backend = make_backend(Device::parse(config.session.device), config.session.threads);
  scheduler::Profile profile{.device = backend->info().name, .capacity = backend->info().capacity, .software = ""};
  for (const int width : widths(config.session.width, backend->info().max_width)) {
    merge(profile, profile_width(config, *dataset, batch, width, options.runs));
  }
  options.on_nodes(profile);
  if (options.pairs > 0) profile_pairs(config, *dataset, batch, options, profile);
  return profile;
}

}  // namespace braid
