#include "train/inspect/bench/profiling.h"

#include <algorithm>

#include "core/base/median.h"
#include "core/text/text_table.h"
#include "runtime/compile/planner.h"
#include "runtime/profile/profiler.h"
#include "train/inspect/bench/bench.h"

namespace braid {

namespace {

scheduler::Profile profile_width(const TrainConfig& config, const ImageDataset& dataset, const Batch& batch, int width,
                                 int runs) {
  constexpr int kWarm = 2;
  Session session(profiling_options(config.session, width));
  Learner learner(config, session, dataset);
  Profiler profiler(session);
  for (int i = 0; i < kWarm + runs; ++i) {
    Step step = session.step();
    learner.record(batch);
    i < kWarm ? step.run() : profiler.run(step);
  }
  return profiler.profile();
}

/// A step that is recorded but not run, for `measure` to look at.
void with_recorded_step(const TrainConfig& config, const std::function<void(Session&)>& measure) {
  const auto dataset = DatasetPool().get(config, Split::train);
  SessionOptions recording = config.session;
  recording.profile.clear();
  Session session(recording);
  Learner learner(config, session, *dataset);
  Step step = session.step();
  learner.record(first_batch(dataset, config));
  step.discard();
  measure(session);
}

}  // namespace

scheduler::Profile profile_nodes(const TrainConfig& config, const ProfilingOptions& options) {
  if (Device::parse(config.session.device).type == DeviceType::cuda) {
    scheduler::Profile profile;
    with_recorded_step(config, [&](Session& session) { profile = profile_nodes(session); });
    return profile;
  }
  const auto dataset = DatasetPool().get(config, Split::train);
  const Batch batch = first_batch(dataset, config);
  const std::unique_ptr<Backend> backend = make_backend(Device::parse(config.session.device), config.session.threads);
  scheduler::Profile profile{.device = backend->info().name, .capacity = backend->info().capacity};
  for (const int width : widths(config.session.intra_op_threads, backend->info().max_width)) {
    merge(profile, profile_width(config, *dataset, batch, width, options.runs));
  }
  return profile;
}

void profile_pairs(const TrainConfig& config, const ProfilingOptions& options, scheduler::Profile& profile) {
  with_recorded_step(config, [&](Session& session) {
    std::vector<int> streams = {2, 4, 8};
    std::erase_if(streams, [&](int count) { return count > session.backend().info().capacity; });
    if (options.streams > 0) streams = {options.streams};
    profile_pairs(session, streams, static_cast<std::size_t>(options.pairs), options.on_pair, profile);
  });
}

LinkProfile profile_link(const TrainConfig& config) {
  const ParallelOptions& parallel = config.session.parallel;
  BRAID_CHECK(parallel.ranks() > 1, Error,
              "[profile] a link needs at least 2 ranks: start this program by 'mpirun -n 2 braid profile --links'");
  const SessionOptions options = session_options(config);
  const Device device = Device::parse(options.device);
  BRAID_CHECK(device.type == DeviceType::cpu, DeviceError, "[profile] expected device cpu, got ", device,
              ": links are measured between ranks on CPU");
  const std::unique_ptr<Backend> backend = make_backend(device, options.threads);
  LinkProfile measured{{.device = backend->info().name, .capacity = backend->info().capacity}};
  measured.times = time_collectives(*parallel.communicator);
  measured.profile.link = fitted_link(measured.times, parallel.ranks(), parallel.communicator->link());
  return measured;
}

std::string to_text(const LinkProfile& measured, int ranks) {
  const Link& link = *measured.profile.link;
  std::vector<std::vector<std::string>> cells{{"collective", "measured", "modelled", "model is off by"}};
  std::vector<double> errors;
  for (const CallTime& time : measured.times) {
    const double modelled = seconds(time.call, ranks, link);
    errors.push_back(std::max(modelled / time.seconds, time.seconds / modelled));
    cells.push_back({time.call.text(), milliseconds(time.seconds), milliseconds(modelled),
                     fixed(100 * (modelled / time.seconds - 1), 0) + " %"});
  }
  return message(text_table(cells, "lrrr"), "\nlink between ", ranks, " ranks: ", fixed(1e6 * link.latency_seconds, 1),
                 " us for a message, ", fixed(1e-9 * link.bytes_per_second, 3),
                 " GB/s\nhalf of the times are within a factor of ", fixed(median(errors), 2),
                 " of this model, all within ", fixed(std::ranges::max(errors), 2), '\n');
}

}  // namespace braid
