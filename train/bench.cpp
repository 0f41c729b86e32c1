#include "train/bench.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "core/median.h"
#include "train/config_sections.h"
#include "train/units.h"

namespace braid {

namespace {

using nlohmann::json;

/// VmHWM, the peak of resident memory, in bytes (proc(5)).
std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

json to_object(const BenchTimes& times) {
  return {{"steps", times.steps},
          {"seconds", times.seconds},
          {"median_step_seconds", times.median_seconds},
          {"images_per_second", times.images_per_second}};
}

/// The N of "run N"; 0 if the line is anything else.
std::int64_t parse_request(std::string_view line) {
  constexpr std::string_view kCommand = "run ";
  std::int64_t steps = 0;
  if (!line.starts_with(kCommand)) return 0;
  const auto [end, error] = std::from_chars(line.data() + kCommand.size(), line.data() + line.size(), steps);
  return error == std::errc{} && end == line.data() + line.size() ? steps : 0;
}

}  // namespace

Batch first_batch(std::shared_ptr<const Dataset> dataset, const TrainConfig& config) {
  LoaderOptions options = loader_options(config, Split::train);
  options.workers = 0;
  Loader loader(std::move(dataset), options);
  loader.start_epoch(0);
  Batch batch;
  BRAID_CHECK(loader.next(batch), ConfigError, "[bench] the training set has no complete batch of ",
              options.batch_size);
  return batch;
}

std::size_t used_streams(const Plan& plan) {
  return static_cast<std::size_t>(
      std::ranges::count_if(plan.streams, [](const auto& commands) { return !commands.empty(); }));
}

Bench::Bench(const TrainConfig& config)
    : config_(config),
      session_(config.session),
      dataset_(DatasetPool().get(config, Split::train)),
      batch_(first_batch(dataset_, config)),
      learner_(config, session_, *dataset_) {}

double Bench::step() {
  const auto start = std::chrono::steady_clock::now();
  Step step = session_.step();
  const Tensor loss = learner_.record(batch_).loss;
  const auto recorded = std::chrono::steady_clock::now();
  step.run();
  loss.item();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Plan& plan = step.plan();
  plan_.nodes = session_.tape().graph().node_count();
  plan_.record_seconds = std::chrono::duration<double>(recorded - start).count();
  plan_.policy = plan.policy;
  plan_.streams = used_streams(plan);
  plan_.makespan = plan.makespan;
  plan_.lower_bound = plan.bound.bound;
  return seconds;
}

void Bench::warm_up() {
  constexpr int kWarm = 5;
  do {
    step();
  } while (session_.choosing());
  for (int i = 0; i < kWarm; ++i) step();
}

BenchTimes Bench::run(std::int64_t steps) {
  BRAID_CHECK(steps > 0, Error, "[bench] expected at least 1 step, got ", steps);
  std::vector<double> seconds;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) seconds.push_back(step());
  BenchTimes times{.steps = steps};
  times.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  times.median_seconds = median(seconds);
  times.images_per_second = static_cast<double>(batch_.size()) / times.median_seconds;
  return times;
}

BenchSetting Bench::setting() const {
  const SessionStats stats = session_.stats();
  BenchSetting setting = plan_;
  setting.model = config_.model.name;
  setting.device = message(session_.device());
  setting.precision = precision_name(config_.session, config_.dtype);
  setting.batch_size = batch_.size();
  setting.arena_bytes = stats.arena_bytes;
  setting.persistent_bytes = stats.persistent_bytes;
  setting.peak_resident_bytes = peak_resident_bytes();
  setting.choice_report = session_.choice_report();
  return setting;
}

std::string to_text(const BenchSetting& setting, const BenchTimes& times) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << setting.model << ", batch " << setting.batch_size << ", "
      << setting.precision << ", on " << setting.device << "\n  step      " << times.median_seconds * 1e3
      << " ms (median of " << times.steps << "), " << std::setprecision(0) << times.images_per_second
      << " images/s\n  plan      " << setting.policy << ", " << setting.streams
      << (setting.streams == 1 ? " stream" : " streams") << std::setprecision(2) << ", predicted "
      << setting.makespan / 1e3 << " ms, lower bound " << setting.lower_bound / 1e3 << " ms\n  recording "
      << setting.record_seconds * 1e6 << " us for " << setting.nodes << " nodes\n";
  if (!setting.choice_report.empty()) out << "  measured  " << setting.choice_report << '\n';
  out << std::setprecision(1) << "  memory    " << mebibytes(setting.arena_bytes) << " MiB arena, "
      << mebibytes(setting.persistent_bytes) << " MiB parameters and state, " << mebibytes(setting.peak_resident_bytes)
      << " MiB resident at most\n";
  return out.str();
}

std::string to_json(const BenchSetting& setting, const BenchTimes& times) {
  json object = to_object(times);
  object.update({{"model", setting.model},
                 {"device", setting.device},
                 {"precision", setting.precision},
                 {"batch_size", setting.batch_size},
                 {"policy", setting.policy},
                 {"streams", setting.streams},
                 {"predicted_makespan_us", setting.makespan},
                 {"lower_bound_us", setting.lower_bound},
                 {"nodes", setting.nodes},
                 {"record_us", setting.record_seconds * 1e6},
                 {"arena_bytes", setting.arena_bytes},
                 {"persistent_bytes", setting.persistent_bytes},
                 {"peak_resident_bytes", setting.peak_resident_bytes},
                 {"choice_report", setting.choice_report}});
  return object.dump();
}

void serve(Bench& bench, std::istream& in, std::ostream& out) {
  out << json{{"ready", true}}.dump() << std::endl;
  for (std::string line; std::getline(in, line);) {
    const std::int64_t steps = parse_request(line);
    const json answer = steps > 0 ? to_object(bench.run(steps)) : json{{"error", "expected 'run N' with N above 0"}};
    out << answer.dump() << std::endl;
  }
}

}  // namespace braid
