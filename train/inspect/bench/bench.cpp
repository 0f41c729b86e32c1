#include "train/inspect/bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/base/median.h"
#include "core/base/text_stream.h"
#include "core/device/cuda/loaded/kernel_tracing.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "scheduler/check/simulator.h"
#include "train/config/config.h"
#include "train/report/plan/trace.h"

namespace braid {

namespace {

/// VmHWM, the peak of resident memory, in bytes (proc(5)).
std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

Json to_object(const BenchTimes& times) {
  return {{"steps", times.steps},
          {"seconds", times.seconds},
          {"median_step_seconds", times.median_seconds},
          {"run_seconds", times.run_seconds},
          {"host_seconds", times.host_seconds},
          {"images_per_second", times.images_per_second}};
}

Json to_list(std::span<const OpTimes> ops) {
  Json list = Json::array();
  for (const OpTimes& op : ops) {
    list.push_back({{"op", op.op},
                    {"nodes", op.nodes},
                    {"predicted_us", op.predicted},
                    {"measured_us", op.measured},
                    {"bytes", op.bytes}});
  }
  return list;
}

Json to_list(std::span<const KeptImplementation> kept) {
  Json list = Json::array();
  for (const KeptImplementation& each : kept) {
    list.push_back({{"node", each.node}, {"implementation", each.implementation}});
  }
  return list;
}

Json to_object(const BenchSetting& setting) {
  Json object{{"model", setting.model},
              {"device", setting.device},
              {"precision", setting.precision},
              {"captures", setting.stats.captures},
              {"capture_seconds", setting.stats.capture_seconds},
              {"capture_report", setting.capture_report},
              {"batch_size", setting.batch_size},
              {"policy", setting.policy},
              {"streams", setting.streams},
              {"predicted_makespan_us", setting.makespan},
              {"simulated_makespan_us", setting.simulated},
              {"lower_bound_us", setting.lower_bound},
              {"nodes", setting.nodes},
              {"record_us", setting.record_seconds * 1e6},
              {"arena_bytes", setting.stats.arena_bytes},
              {"persistent_bytes", setting.stats.persistent_bytes},
              {"peak_resident_bytes", setting.peak_resident_bytes},
              {"choice_report", setting.choice_report}};
  if (setting.costs) {
    object["measured_nodes"] = setting.stats.measured.known;
    object["unmeasured_nodes"] = setting.stats.measured.unknown;
  }
  return object;
}

Json to_object(const Roofline& roofline) {
  Json ops = Json::array(), nodes = Json::array(), rates = Json::array();
  for (const OpRoofline& op : roofline.ops) {
    ops.push_back({{"op", op.op},
                   {"nodes", op.nodes},
                   {"floor_us", op.floor},
                   {"arithmetic_floor_us", op.arithmetic},
                   {"measured_us", op.measured}});
  }
  for (const NodeRoofline& node : roofline.nodes) {
    nodes.push_back({{"node", node.node}, {"floor_us", node.floor}, {"measured_us", node.measured}});
  }
  for (const auto& [bytes, rate] : roofline.peaks.bytes_per_second) rates.push_back(Json::array({bytes, rate}));
  return {{"flops_per_second", roofline.peaks.flops_per_second},
          {"bytes_per_second", std::move(rates)},
          {"step_us", roofline.step},
          {"ops", std::move(ops)},
          {"nodes", std::move(nodes)}};
}

std::string table_of(std::span<const OpTimes> ops) {
  std::vector<std::vector<std::string>> table{{"op", "nodes", "predicted, ms", "measured, ms", "ratio"}};
  const auto add_row = [&](const OpTimes& op) {
    const std::string predicted = fixed(op.predicted / 1e3, 4), measured = fixed(op.measured / 1e3, 4);
    const double ratio = std::stod(measured) / std::stod(predicted);  // ratio of the two printed numbers
    table.push_back(
        {op.op, std::to_string(op.nodes), predicted, measured, std::isfinite(ratio) ? fixed(ratio, 2) : ""});
  };
  OpTimes all{.op = "all"};
  for (const OpTimes& op : ops) {
    add_row(op);
    all.nodes += op.nodes;
    all.predicted += op.predicted;
    all.measured += op.measured;
  }
  add_row(all);
  return text_table(table, "lrrrr", "  ");
}

/// The answer to a line of serve().
Json answer(Bench& bench, const std::string& line) {
  if (line == "setting") return to_object(bench.setting());
  if (line == "handover") return {{"handover_ns", measure_handover()}};
  if (line == "ops") {
    const std::vector<OpTimes> ops = bench.traced_op_times();
    return {{"clock", ops.empty() ? "" : ops[0].clock},
            {"ops", to_list(ops)},
            {"implementations", to_list(bench.implementations())}};
  }
  std::istringstream words(line);
  std::string run, unread, rest;
  std::int64_t steps = 0;
  words >> run >> steps >> unread >> rest;
  if (run == "run" && steps > 0 && rest.empty()) {
    if (unread.empty()) return to_object(bench.run(steps));
    if (unread == "unread") return {{"steps", steps}, {"seconds", bench.run_unread(steps)}};
  }
  return {
      {"error",
       "expected 'run N' or 'run N unread' with N above 0, 'setting', 'ops', 'handover', or 'use I' with a bench that "
       "there is"}};
}

}  // namespace

Batch first_batch(std::shared_ptr<const ImageDataset> dataset, const TrainConfig& config) {
  LoaderOptions options = training_options(config, *dataset);
  options.workers = 0;
  Loader loader(std::move(dataset), options);
  Batch batch;
  BRAID_CHECK(loader.next(batch), ConfigError, "[bench] the training set has no complete batch of ",
              options.batch_size);
  return batch;
}

Bench::Bench(const TrainConfig& config)
    : config_(config),
      session_(config.session),
      dataset_(DatasetPool().get(config, Split::train)),
      batch_(first_batch(dataset_, config)),
      learner_(config, session_, *dataset_),
      images_(session_.add("bench.images", {batch_.images.dtype(), batch_.images.shape()}, ValueKind::state)),
      labels_(session_.add("bench.labels", {batch_.labels.dtype(), batch_.labels.shape()}, ValueKind::state)) {
  session_.write(images_, batch_.images);
  session_.write(labels_, batch_.labels);
}

Tensor Bench::start(Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  Tensor loss = learner_.record(images_, labels_).loss;
  const auto recorded = std::chrono::steady_clock::now();
  step.run();
  const auto started = std::chrono::steady_clock::now();
  const scheduler::Plan& plan = step.plan();
  plan_.nodes = session_.tape().graph().node_count();
  plan_.record_seconds = std::chrono::duration<double>(recorded - begin).count();
  plan_.policy = plan.policy;
  plan_.streams = plan.commands.used_streams();
  plan_.makespan = plan.makespan;
  plan_.lower_bound = plan.bound.bound;
  host_seconds_ = std::chrono::duration<double>(started - recorded).count();
  return loss;
}

double Bench::step() {
  Step step = session_.step();
  const Tensor loss = start(step);
  const auto started = std::chrono::steady_clock::now();
  loss.item();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - started;
  return host_seconds_ + waited.count();
}

double Bench::simulated_makespan() {
  const SessionOptions& options = session_.options();
  const DeviceInfo& device = session_.backend().info();
  std::optional<scheduler::Profile> profile;
  if (!options.profile.empty()) profile = scheduler::read_profile(options.profile);
  Step step = session_.step();
  const Tensor loss = start(step);
  auto [plan, costs] = plan_in_use(step);
  const int streams = static_cast<int>(plan.commands.streams.size());
  const scheduler::Problem problem =
      scheduler::make_problem(step.graph(), std::move(costs), device, streams,
                              profile.has_value() ? &*profile : nullptr, rounds_to_tf32(options, device));
  const double makespan = simulate(problem, plan).makespan;
  loss.item();
  return makespan;
}

void Bench::warm_up() {
  constexpr int kWarm = 5;
  do {
    step();
  } while (session_.choosing());
  for (int i = 0; i < kWarm; ++i) step();
  plan_.simulated = simulated_makespan();
}

BenchTimes Bench::run(std::int64_t steps) {
  std::vector<double> seconds, run_seconds, host_seconds;
  const auto start = std::chrono::steady_clock::now();
  auto before = start;
  for (std::int64_t i = 0; i < steps; ++i) {
    run_seconds.push_back(step());
    host_seconds.push_back(host_seconds_);
    const auto now = std::chrono::steady_clock::now();
    seconds.push_back(std::chrono::duration<double>(now - std::exchange(before, now)).count());
  }
  BenchTimes times{.steps = steps};
  times.seconds = std::chrono::duration<double>(before - start).count();
  times.median_seconds = median(seconds);
  times.run_seconds = median(run_seconds);
  times.host_seconds = median(host_seconds);
  times.images_per_second = static_cast<double>(batch_.size()) / times.median_seconds;
  return times;
}

double Bench::run_unread(std::int64_t steps) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) {
    Step step = session_.step();
    start(step);
  }
  session_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Visit>
std::pair<std::string, double> Bench::measure_nodes(const Visit& visit) {
  constexpr int kSteps = 9;
  std::vector<std::vector<double>> samples;  // per node
  std::vector<double> spans;
  for (int i = 0;; ++i) {
    Step step = session_.step();
    learner_.record(images_, labels_);
    const auto [times, clock] = step.measure();
    samples.resize(static_cast<std::size_t>(step.graph().node_count()));
    double end = 0;
    for (const LaunchTime& time : times) {
      samples[static_cast<std::size_t>(time.index)].push_back(time.finish - time.start);
      end = std::max(end, time.finish);
    }
    spans.push_back(times.empty() ? 0 : end - times.front().start);
    if (i + 1 < kSteps) continue;
    for (const LaunchTime& time : times) visit(step, time.index, median(samples[static_cast<std::size_t>(time.index)]));
    return {std::string(clock), median(spans)};
  }
}

std::vector<OpTimes> Bench::op_times() {
  std::map<std::string_view, OpTimes> ops;
  const auto [clock, span] = measure_nodes([&](const Step& step, NodeId node, double microseconds) {
    OpTimes& op = ops[step.graph().node(node).op->name()];
    ++op.nodes;
    op.predicted += step.chosen(node).duration;
    op.measured += microseconds;
    op.bytes += step.work(node).bytes;
  });
  std::vector<OpTimes> list;
  for (auto& [name, op] : ops) {
    op.op = name;
    op.clock = clock;
    list.push_back(std::move(op));
  }
  std::ranges::stable_sort(list, std::greater(), &OpTimes::measured);
  return list;
}

Roofline Bench::roofline() {
  struct Timed {
    std::string op, node;
    Work work;
    double microseconds;  // of the whole device
  };
  const Peaks before = measure_peaks(config_.session);
  std::vector<Timed> nodes;
  const double capacity = session_.backend().info().capacity;
  Roofline roofline;
  std::tie(roofline.clock, roofline.step) = measure_nodes([&](const Step& step, NodeId node, double microseconds) {
    nodes.push_back({std::string(step.graph().node(node).op->name()), scheduler::node_signature(step.graph(), node),
                     step.work(node), microseconds * step.chosen(node).width / capacity});
  });
  roofline.peaks = best_of(before, measure_peaks(config_.session));  // a busy machine reaches less at times
  std::map<std::string, OpRoofline> ops;
  for (auto& [name, node, work, microseconds] : nodes) {
    const double floor = roofline.peaks.floor(work);
    roofline.nodes.push_back({std::move(node), floor, microseconds});
    OpRoofline& op = ops.try_emplace(name, OpRoofline{.op = name}).first->second;
    ++op.nodes;
    op.floor += floor;
    if (roofline.peaks.is_bound_by_arithmetic(work)) op.arithmetic += floor;
    op.measured += microseconds;
  }
  for (auto& [name, op] : ops) roofline.ops.push_back(std::move(op));
  std::ranges::stable_sort(roofline.ops, std::greater(), [](const auto& op) { return op.measured - op.floor; });
  return roofline;
}

std::vector<OpTimes> Bench::traced_op_times() {
  session_.synchronize();
  std::optional<cuda::KernelTracing> tracing;
  if (session_.device().type == DeviceType::cuda) tracing.emplace();
  std::vector<OpTimes> ops = op_times();
  if (tracing && !tracing->problem().empty()) {
    for (OpTimes& op : ops) op.clock += ", as CUPTI cannot be used: " + tracing->problem();
  }
  return ops;
}

std::vector<KeptImplementation> Bench::implementations() {
  Step step = session_.step();
  const Tensor loss = start(step);
  const bool tf32 = rounds_to_tf32(session_.options(), session_.backend().info());
  std::vector<KeptImplementation> kept;
  for (NodeId node = 0; node < step.graph().node_count(); ++node) {
    if (const std::string& name = step.chosen(node).algorithm; !name.empty()) {
      kept.push_back({scheduler::node_signature(step.graph(), node, tf32), name});
    }
  }
  loss.item();
  return kept;
}

BenchSetting Bench::setting() const {
  BenchSetting setting = plan_;
  setting.model = config_.model.title();
  setting.device = message(session_.device());
  setting.precision = precision_in_use(config_, session_.backend().info());
  setting.batch_size = batch_.size();
  setting.stats = session_.stats();
  setting.stats.persistent_bytes -= images_.bytes() + labels_.bytes();
  setting.peak_resident_bytes = peak_resident_bytes();
  setting.choice_report = session_.choice_report();
  setting.capture_report = session_.capture_report();
  setting.costs = !config_.session.profile.empty();
  return setting;
}

namespace {

/// All but the ops, and what they were measured by.
std::string summary_of(const BenchSetting& setting, const BenchTimes& times, double unread, std::string_view clock) {
  TextStream out;
  out << setting.model << ", batch " << setting.batch_size << ", " << setting.precision << ", on " << setting.device
      << "\n  step      " << fixed(times.median_seconds * 1e3, 3) << " ms (median of " << times.steps << "), "
      << fixed(times.images_per_second, 0) << " images/s\n  plan      " << setting.policy << ", "
      << plural(setting.streams, "stream") << ", predicted " << fixed(setting.makespan / 1e3, 3) << " ms, simulated "
      << fixed(setting.simulated / 1e3, 3) << " ms, lower bound " << fixed(setting.lower_bound / 1e3, 3)
      << " ms\n  recording " << fixed(setting.record_seconds * 1e6, 2) << " us for " << plural(setting.nodes, "node")
      << "\n  unread    " << fixed(unread / static_cast<double>(times.steps) * 1e3, 3) << " ms (mean of " << times.steps
      << ") without reading the loss; " << fixed(times.host_seconds * 1e6, 2) << " us of host time to start a step\n";
  if (!setting.choice_report.empty()) out << "  measured  " << setting.choice_report << '\n';
  if (!setting.capture_report.empty()) out << "  captured  " << setting.capture_report << '\n';
  if (setting.stats.captures > 0) {
    out << "  captured  " << plural(setting.stats.captures, "CUDA graph") << ", "
        << fixed(setting.stats.capture_seconds * 1e3, 2) << " ms in all\n";
  }
  if (setting.costs) {
    out << "  costs     measured for " << setting.stats.measured.known << " of "
        << plural(setting.stats.measured.known + setting.stats.measured.unknown, "node") << '\n';
  }
  if (!clock.empty()) out << "  ops       measured by " << clock << '\n';
  out << "  memory    " << mebibytes(setting.stats.arena_bytes) << " MiB arena, "
      << mebibytes(setting.stats.persistent_bytes) << " MiB parameters and state, "
      << mebibytes(setting.peak_resident_bytes) << " MiB peak resident\n";
  return out.str();
}

Json to_object(const BenchSetting& setting, const BenchTimes& times, double unread) {
  Json object = to_object(times), of_setting = to_object(setting);
  for (const auto& [key, value] : of_setting.members()) object[key] = value;
  object["unread_step_seconds"] = unread / static_cast<double>(times.steps);
  return object;
}

}  // namespace

std::string to_text(const BenchSetting& setting, const BenchTimes& times, double unread, std::span<const OpTimes> ops) {
  return summary_of(setting, times, unread, ops.empty() ? "" : ops[0].clock) + '\n' + table_of(ops);
}

std::string to_json(const BenchSetting& setting, const BenchTimes& times, double unread, std::span<const OpTimes> ops) {
  Json object = to_object(setting, times, unread);
  object["op_clock"] = ops.empty() ? "" : ops[0].clock;
  object["ops"] = to_list(ops);
  return object.dump_sorted();
}

std::string to_text(const BenchSetting& setting, const BenchTimes& times, double unread, const Roofline& roofline) {
  return summary_of(setting, times, unread, roofline.clock) + to_text(roofline);
}

std::string to_json(const BenchSetting& setting, const BenchTimes& times, double unread, const Roofline& roofline) {
  Json object = to_object(setting, times, unread);
  object["op_clock"] = roofline.clock;
  object["roofline"] = to_object(roofline);
  return object.dump_sorted();
}

void serve(std::span<const std::unique_ptr<Bench>> benches, std::istream& in, std::ostream& out) {
  std::size_t used = 0;
  out << Json{{"ready", true}}.dump() << std::endl;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string use;
    if (std::size_t index = 0; words >> use >> index && use == "use" && index < benches.size()) {
      used = index;
      out << Json{{"using", index}}.dump() << std::endl;
    } else {
      out << answer(*benches[used], line).dump_sorted() << std::endl;
    }
  }
}

}  // namespace braid
