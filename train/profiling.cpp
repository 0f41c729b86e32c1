#include "train/profiling.h"

#include "runtime/profiler.h"
#include "train/bench.h"

namespace braid {

namespace {

Profile profile_width(const TrainConfig& config, const Dataset& dataset, const Batch& batch, int width, int runs) {
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

}  // namespace

Profile profile_training(const TrainConfig& config, int runs) {
  BRAID_CHECK(runs >= 1, Error, "[profile] expected at least 1 run, got ", runs);
  const auto dataset = DatasetPool().get(config, Split::train);
  const Batch batch = first_batch(dataset, config);
  const std::unique_ptr<Backend> backend = make_backend(Device::parse(config.session.device), config.session.threads);
  Profile profile{.device = backend->info().name, .capacity = backend->info().capacity, .software = ""};
  for (const int width : widths(config.session.width, backend->info().max_width)) {
    merge(profile, profile_width(config, *dataset, batch, width, runs));
  }
  return profile;
}

}  // namespace braid
