#include "train/inspect/plan_report.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "core/base/read_file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/text_table.h"
#include "runtime/compile/planner.h"
#include "scheduler/check/simulator.h"
#include "train/report/plan/staleness.h"
#include "train/run/strategy.h"

namespace braid {

namespace {

/// Bytes of the parameters that a step reads.
std::int64_t parameter_bytes(const StepGraph& graph) {
  std::int64_t bytes = 0;
  for (const Value& value : graph.values()) {
    const bool is_first_version = value.kind == ValueKind::parameter && value.producer == kNoNode;
    bytes += is_first_version ? static_cast<std::int64_t>(value.bytes()) : 0;
  }
  return bytes;
}

/// Share of the capacity that is in use during a run, 0 to 1.
double utilisation(const scheduler::Problem& problem, const scheduler::Plan& plan,
                   const scheduler::Simulation& simulation) {
  double work = 0;
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    const scheduler::Cost& cost =
        problem.costs.of(node, plan.placements[static_cast<std::size_t>(node)].implementation);
    work += cost.width * cost.duration;
  }
  return simulation.makespan > 0 ? work / problem.capacity / simulation.makespan : 0;
}

double bytes_sent(const scheduler::Problem& problem, const DeviceInfo& device) {
  double sum = 0;
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    const Communication communication = problem.graph.communication(node);
    sum += sent_bytes(communication, device.link_among(communication.group));
  }
  return sum;
}

/// The rows of the stages of a pipeline; none if there are no stages.
std::vector<StageRow> stage_rows(const scheduler::LimitedStages& planned, const PlanReport& report) {
  std::vector<StageRow> rows;
  if (planned.steps.size() == 1) return rows;
  for (const scheduler::LimitedStep& step : planned.steps) {
    const scheduler::Problem& problem = step.problem;
    StageRow& row = rows.emplace_back();
    const std::size_t i = rows.size() - 1;
    if (i > 0) row.first_layer = report.step.strategy.stages[i - 1];
    row.held = report.step.order.in_flight[i];
    row.sent_bytes = bytes_sent(problem, report.target.info);
    row.persistent_bytes = memory_use(problem.graph, step.plan).persistent;
    row.arena_bytes = step.plan.arena_bytes;
    for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
      if (problem.costs.link(node) != scheduler::kNoLink) continue;
      row.computing +=
          problem.costs.of(node, step.plan.placements[static_cast<std::size_t>(node)].implementation).duration;
    }
  }
  return rows;
}

/// Plans the step and adds the row of the plan.
void add_row(const std::string& policy, int streams, bool configured, PlanReport& report) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<scheduler::Problem> problems{with_streams(report.problem, streams)};
  for (const scheduler::Problem& stage : report.later_stages) problems.push_back(with_streams(stage, streams));
  scheduler::LimitedStages stages =
      plan_stages(std::move(problems), scheduler::find_policy(policy), policy, report.memory_limit);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  scheduler::LimitedStep& planned = stages.steps.front();
  const scheduler::Plan& plan = planned.plan;
  report.rows.push_back(
      {.policy = plan.policy.starts_with(policy) ? plan.policy : message(policy, " (", plan.policy, ')'),
       .plan = plan,
       .makespan = stages.makespan(),
       .utilisation = utilisation(planned.problem, plan, stages.runs.front()),
       .traded = planned.traded,
       .fits = stages.fits(),
       .plan_seconds = seconds.count()});
  if (!configured) return;
  report.configured = report.rows.size() - 1;
  report.stages = stage_rows(stages, report);
  report.planned = std::move(planned);
}

void add_rows(const std::string& configured, const PlanRequest& request, int streams, PlanReport& report) {
  const std::vector<int> counts = request.streams.empty() ? std::vector{streams} : request.streams;
  const bool all = request.policy.empty() && counts.size() == 1;
  const std::vector<std::string> policies = all ? scheduler::policy_names() : std::vector{configured};
  add_row("serial", 1, configured == "serial", report);
  for (const int count : counts) {
    for (const std::string& policy : policies) {
      if (policy != "serial") add_row(policy, count, policy == configured, report);
    }
  }
}

/// Adds the plan of a file, as the configured one. Throws DataError if it cannot be read, or PlanError if it is no safe
/// plan of the step.
void add_row_of_file(const std::string& file, PlanReport& report) {
  BRAID_CHECK(report.stages.empty(), Error, "[plan] a plan cannot be shown for a pipeline, whose stages have one each");
  scheduler::LimitedStep& planned = report.planned;
  const std::string text = read_file(file, "the plan");
  try {
    planned.plan = scheduler::plan_from_json(text, planned.problem);
  } catch (const PlanError& error) {
    throw PlanError(message(file, ": expected a plan of ", describe(report.step), ": ", error.what()));
  }
  planned.traded.clear();
  planned.fits = report.memory_limit == 0 || planned.plan.arena_bytes <= report.memory_limit;
  const scheduler::Simulation simulation = simulate(planned.problem, planned.plan);
  report.configured = report.rows.size();
  report.rows.push_back({.policy = message(planned.plan.policy, " of ", file),
                         .plan = planned.plan,
                         .makespan = simulation.makespan,
                         .utilisation = utilisation(planned.problem, planned.plan, simulation),
                         .traded = {},
                         .fits = planned.fits});
}

/// The ratio of two times as printed, so that a reader gets the same one.
std::string ratio(double microseconds, double other) {
  const auto printed = [](double time) { return std::stod(milliseconds(time / 1e6)); };
  return printed(other) > 0 ? fixed(printed(microseconds) / printed(other), 2) : "";
}

/// The names of the columns, and one row for each plan.
std::string table_of(const PlanReport& report, bool all_columns) {
  struct Column {
    const char* name;
    bool always;
    std::string (*cell)(const PlanRow& row, const PlanRow& serial);
  };
  constexpr Column kColumns[] = {
      {"policy", true, [](const PlanRow& row, const PlanRow&) { return row.policy; }},
      {"streams", true,
       [](const PlanRow& row, const PlanRow&) {
         return message(row.plan.commands.used_streams(), " of ", row.streams());
       }},
      {"makespan", true, [](const PlanRow& row, const PlanRow&) { return milliseconds(row.makespan / 1e6); }},
      {"x bound", true, [](const PlanRow& row, const PlanRow&) { return ratio(row.makespan, row.plan.bound.bound); }},
      {"x serial", true,
       [](const PlanRow& row, const PlanRow& serial) { return ratio(serial.makespan, row.makespan); }},
      {"in use", false, [](const PlanRow& row, const PlanRow&) { return fixed(100 * row.utilisation, 0) + " %"; }},
      {"waits", true, [](const PlanRow& row, const PlanRow&) { return std::to_string(row.plan.commands.waits()); }},
      {"arena, MiB", true, [](const PlanRow& row, const PlanRow&) { return mebibytes(row.plan.arena_bytes); }},
      {"live, MiB", false, [](const PlanRow& row, const PlanRow&) { return mebibytes(row.plan.live_bytes); }},
      {"naive, MiB", false, [](const PlanRow& row, const PlanRow&) { return mebibytes(row.plan.naive_bytes); }},
      {"planned in", false, [](const PlanRow& row, const PlanRow&) { return milliseconds(row.plan_seconds); }},
  };
  std::vector<std::vector<std::string>> cells(report.rows.size() + 1);
  std::string alignment;
  for (const Column& column : kColumns) {
    if (!column.always && !all_columns) continue;
    cells[0].emplace_back(column.name);
    for (std::size_t i = 0; i < report.rows.size(); ++i) {
      cells[i + 1].push_back(column.cell(report.rows[i], report.rows.front()));
    }
    alignment += alignment.size() < 2 ? 'l' : 'r';
  }
  return text_table(cells, alignment);
}

/// The memory of the configured plan by content.
std::string memory_table(const PlanReport& report) {
  const PlanRow& row = report.rows[report.configured];
  const scheduler::Plan& plan = row.plan;
  const scheduler::MemoryUse& memory = report.memory;
  const std::vector<std::pair<std::string, std::int64_t>> lines{
      {"parameters and optimizer state", memory.persistent},
      {"arena", plan.arena_bytes},
      {"  peak", plan.live_bytes},
      {"    activations", memory.activations},
      {"    gradients", memory.gradients},
      {"    inputs", memory.inputs},
      {"    workspaces", memory.workspaces},
      {"  without reuse of memory", plan.naive_bytes},
  };
  std::vector<std::vector<std::string>> cells{{"memory of " + row.policy, "MiB"}};
  for (const auto& [what, bytes] : lines) cells.push_back({what, mebibytes(bytes)});
  return text_table(cells, "lr");
}

std::string streams_of(const PlanRow& row) { return plural(row.streams(), "stream"); }

/// The configured plan on fewer and more ranks.
std::string scaling_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> cells{
      {"ranks", "step", "efficiency", "communicating", "not hidden", "buckets"}};
  const std::vector<scheduler::ScaleRow>& rows = report.scaling.rows;
  for (const scheduler::ScaleRow& row : rows) {
    cells.push_back({std::to_string(row.ranks), milliseconds(row.makespan / 1e6), fixed(100 * row.efficiency, 0) + " %",
                     milliseconds(row.communicating / 1e6), milliseconds((row.makespan - rows.front().makespan) / 1e6),
                     std::to_string(row.buckets)});
  }
  return text_table(cells, "rrrrrr");
}

std::string strategy_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> cells{{"strategy", "step", "sent, MiB", "parameters, MiB", "arena, MiB"}};
  for (const StrategyRow& row : report.strategies) {
    cells.push_back({row.name, milliseconds(row.makespan / 1e6), mebibytes(static_cast<std::int64_t>(row.sent_bytes)),
                     mebibytes(row.persistent_bytes), mebibytes(row.arena_bytes)});
  }
  return text_table(cells, "lrrrr");
}

std::string stage_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> cells{
      {"stage", "begins with", "computing", "idle", "held", "sent, MiB", "parameters, MiB", "arena, MiB"}};
  const double step = report.rows[report.configured].makespan;
  for (std::size_t i = 0; i < report.stages.size(); ++i) {
    const StageRow& row = report.stages[i];
    cells.push_back({std::to_string(i), row.first_layer, milliseconds(row.computing / 1e6),
                     fixed(100 * std::max(0.0, 1 - row.computing / step), 0) + " %", std::to_string(row.held),
                     mebibytes(static_cast<std::int64_t>(row.sent_bytes)), mebibytes(row.persistent_bytes),
                     mebibytes(row.arena_bytes)});
  }
  return text_table(cells, "rlrrrrrr");
}

std::string whether_it_fits(const PlanRow& row) {
  const std::string traded = row.traded.empty() ? "" : " (" + comma_list(row.traded, "; ") + ')';
  return wrapped(message("  ", row.policy, " on ", streams_of(row), row.fits ? " fits" : " DOES NOT FIT", traded), 4) +
         '\n';
}

/// Reports a step without scaling.
PlanReport report_step(const RunConfig& config, const PlanRequest& request, const scheduler::Cluster& cluster,
                       StepRecorder& recorder) {
  const SessionOptions& options = config.jobs.front().training.session;
  PlanReport report;
  report.cluster = cluster;
  report.memory_limit = options.memory_limit;
  const std::string& device = cluster.device.empty() ? options.device : cluster.device;
  report.target = find_plan_target(request.device.empty() ? device : request.device);
  DeviceInfo& info = report.target.info;
  if (request.ranks > 1) info.link = link_of(cluster, request.ranks);
  for (int second = 2; second < request.ranks; ++second) {  // the groups along the axes of meshes
    if (request.ranks % second != 0) continue;
    for (const RankGroup& group : {RankGroup{second, 1}, RankGroup{request.ranks / second, second}}) {
      info.group_links.emplace_back(group, link_of(cluster, request.ranks, group));
    }
  }
  const bool tf32 = report.tf32 = rounds_to_tf32(options, info);
  const std::string& policy = request.policy.empty() ? options.policy : request.policy;
  const int streams = options.streams > 0 ? options.streams : kPlannedStreams;
  report.steps = request.steps > 0 ? request.steps : options.parallel.steps_per_execution;
  report.step = recorder.record({.count = request.ranks,
                                 .steps = report.steps,
                                 .are_alike = request.straggler == 1,
                                 .device = info,
                                 .streams = request.streams.empty() ? streams : request.streams.front(),
                                 .policy = scheduler::find_policy(policy)});
  BRAID_CHECK(report.step.stages.empty() || request.straggler == 1, Error,
              "[plan] expected a straggler of 1, as the stages of a pipeline have separate plans, got ",
              request.straggler);
  const DeviceInfo unchanged = info;
  const auto problem_of = [&](const StepGraph& graph) {
    info = unchanged;
    report.costs = target_costs(graph, report.target, options);
    const scheduler::Profile* profile = report.costs.profile.has_value() ? &*report.costs.profile : nullptr;
    scheduler::Problem problem =
        scheduler::make_problem(graph, std::move(report.costs.costs), unchanged, kPlannedStreams, profile, tf32);
    scheduler::Scenario scenario = what_if(graph, problem.costs, unchanged, request.what_if, tf32);
    info = std::move(scenario.device);
    problem.costs = std::move(scenario.costs);
    problem.capacity = info.capacity;
    problem.host_microseconds = request.host_microseconds;
    if (request.wait_microseconds > 0) problem.wait_microseconds = request.wait_microseconds;
    return problem;
  };
  for (std::size_t i = 1; i < report.step.stages.size(); ++i) {
    report.later_stages.push_back(problem_of(report.step.stages[i]));
  }
  report.problem = problem_of(report.step.graph);
  add_rows(policy, request, streams, report);
  if (!request.plan.empty()) add_row_of_file(request.plan, report);
  report.memory = memory_use(report.planned.problem.graph, report.planned.plan);
  return report;
}

/// The makespan of the same plan if computing takes one rank `times` times as long.
double straggling(const scheduler::LimitedStep& planned, double times) {
  const scheduler::Problem slow = slowed(planned.problem, times);
  const scheduler::RankPlan ranks[] = {{&planned.problem, &planned.plan}, {&slow, &planned.plan}};
  return std::ranges::max(simulate(ranks), {}, &scheduler::Simulation::makespan).makespan;
}

scheduler::ScaleRow scale_row(const PlanReport& report, int ranks, double straggler) {
  const scheduler::LimitedStep& planned = report.planned;
  scheduler::ScaleRow row{.ranks = ranks,
                          .buckets = report.step.partition.buckets.size() / static_cast<std::size_t>(report.steps)};
  row.makespan = ranks > 1 && straggler != 1 ? straggling(planned, straggler) : report.rows[report.configured].makespan;
  row.makespan /= report.steps;
  for (NodeId node = 0; node < planned.problem.graph.node_count(); ++node) {
    if (planned.problem.costs.link(node) != scheduler::kNoLink) {
      row.communicating += planned.problem.costs.of(node, 0).duration / report.steps;
    }
  }
  return row;
}

StrategyRow strategy_row(const std::string& name, const PlanReport& report) {
  const scheduler::LimitedStep& planned = report.planned;
  StrategyRow row{.name = name,
                  .makespan = report.rows[report.configured].makespan / report.steps,
                  .persistent_bytes = report.memory.persistent,
                  .arena_bytes = planned.plan.arena_bytes};
  row.sent_bytes = bytes_sent(planned.problem, report.target.info) / report.steps;
  for (const StageRow& stage : report.stages) {  // the largest
    row.sent_bytes = std::max(row.sent_bytes, stage.sent_bytes);
    row.persistent_bytes = std::max(row.persistent_bytes, stage.persistent_bytes);
    row.arena_bytes = std::max(row.arena_bytes, stage.arena_bytes);
  }
  return row;
}

scheduler::LayerDivision division_of(const PlanReport& report) {
  const RecordedStep& step = report.step;
  const bool has_stages = !report.stages.empty();
  const auto ranks = static_cast<int>(has_stages ? report.stages.size() : step.partition.ranks);
  scheduler::LayerDivision division{.ranks = ranks, .has_stages = has_stages, .groups = {}};
  if (has_stages) {
    for (const StageRow& stage : report.stages) division.groups.push_back({.layers = {}, .computing = stage.computing});
    for (std::size_t stage = 0; const std::string& layer : step.forward_layers) {
      const auto begun = std::ranges::find(step.strategy.stages, layer);
      if (begun != step.strategy.stages.end())
        stage = static_cast<std::size_t>(begun - step.strategy.stages.begin()) + 1;
      division.groups[stage].layers.push_back(layer);
    }
    return division;
  }
  if (step.strategy.empty()) return division;
  for (Parts last{{'n', ranks}}; const std::string& layer : step.forward_layers) {
    // A layer that the strategy does not name is shown like the one before it.
    const auto found = step.strategy.find(layer);
    const Parts parts = found == step.strategy.end() ? last : parts_of(found->second, ranks, step.strategy.second_axis);
    if (division.groups.empty() || parts != last) division.groups.push_back({.layers = {}, .parts = parts});
    division.groups.back().layers.push_back(layer);
    last = parts;
  }
  return division;
}

/// Simulates asynchronous SGD whose steps take as long as those of a rank alone.
scheduler::Staleness simulate_asynchronous(const PlanReport& report, const PlanRequest& request, std::uint64_t seed) {
  scheduler::AsynchronousSgd training = on_servers(report.cluster, request.ranks, parameter_bytes(report.step.graph));
  training.computing = report.scaling.rows.front().makespan;
  training.spread = request.spread;
  training.straggler = request.straggler;
  training.bound = request.staleness_bound;
  training.seed = seed;
  return simulate(training);
}

}  // namespace

PlanReport report_plan(RunConfig config, const PlanRequest& request) {
  for (JobConfig& job : config.jobs) {
    if (request.memory_limit > 0) job.training.session.memory_limit = request.memory_limit;
  }
  const scheduler::Cluster cluster = request.cluster.empty() ? scheduler::Cluster{} : find_cluster(request.cluster);
  BRAID_CHECK(request.ranks == 1 || !request.cluster.empty(), Error, "[plan] expected the cluster of ", request.ranks,
              " ranks: --cluster with one of ", comma_list(scheduler::known_cluster_names()), " or a file *.yaml");
  BRAID_CHECK(request.strategy.empty() || request.ranks > 1, Error, "[plan] a strategy needs several ranks: --ranks");
  const bool all = request.strategy == kAllStrategies;
  std::string strategy = config.jobs.front().training.session.parallel.strategy;
  if (!all && !request.strategy.empty()) strategy = request.strategy;
  const int shards = config.jobs.front().training.session.parallel.virtual_ranks;
  BRAID_CHECK(
      request.ranks == 1 || strategy == "data" || has_stages(strategy) || shards == 0 || shards == request.ranks, Error,
      "[plan] strategy: expected ", request.ranks, " virtual ranks (parallel.virtual_ranks), one per rank, or 0, got ",
      shards);
  const ParallelOptions& parallel = config.jobs.front().training.session.parallel;
  BRAID_CHECK(
      !request.asynchronous ||
          (request.ranks > 1 && strategy == "data" && !parallel.exchanges_otherwise() && !request.forward),
      Error,
      "[plan] asynchronous SGD is for training on several ranks with a whole model each: expected --ranks of at "
      "least 2 and strategy data, without --forward, compression, staleness and average_every");
  const bool is_file = std::ranges::find(kStrategies, strategy) == kStrategies.end();
  // The factor by which the numbers of ranks grow for which scaling is shown. A file is for one number.
  const int scale_step = is_file ? request.ranks : 4;
  StepRecorder recorder(config, request.batch_size, request.forward);
  recorder.use(strategy);
  if (request.ranks == 1) return report_step(config, request, cluster, recorder);
  PlanReport report;
  scheduler::Scaling scaling{.cluster = message(cluster.name, ": ", plural(cluster.hosts, "host"), " with ",
                                                plural(cluster.devices, "device"), " each"),
                             .rows = {}};
  for (int ranks = 1;; ranks = std::min(scale_step * ranks, request.ranks)) {
    PlanRequest fewer = request;
    fewer.ranks = ranks;
    if (ranks < request.ranks) fewer.plan.clear();  // it is one for all of them
    if (ranks < request.ranks && fewer.policy.empty()) fewer.policy = config.jobs.front().training.session.policy;
    report = report_step(config, fewer, cluster, recorder);
    scheduler::ScaleRow& row = scaling.rows.emplace_back(scale_row(report, ranks, request.straggler));
    row.efficiency = scaling.rows.front().makespan / row.makespan;
    if (ranks == request.ranks) break;
  }
  report.scaling = std::move(scaling);
  if (request.asynchronous) {
    report.asynchronous = simulate_asynchronous(report, request, config.jobs.front().training.session.seed);
    report.has_straggler = request.straggler != 1;
  }
  std::vector<StrategyRow> strategies{strategy_row(strategy, report)};
  const bool only_data = parallel.exchanges_otherwise();
  for (const std::string& other : kStrategies) {
    if (!all || only_data || other == strategy || other == "auto") continue;  // which is one of the others
    recorder.use(other);
    PlanRequest same = request;
    same.plan.clear();
    if (same.policy.empty()) same.policy = config.jobs.front().training.session.policy;
    try {
      strategies.push_back(strategy_row(other, report_step(config, same, cluster, recorder)));
    } catch (const PlanError&) {
      throw;
    } catch (const Error&) {  // no pipeline can run this step
      if (other != "pipeline") throw;
    }
  }
  report.strategies = std::move(strategies);
  return report;
}

scheduler::PlanView view_of(const PlanReport& report) {
  const scheduler::LimitedStep& planned = report.planned;
  scheduler::PlanView view = view_of(planned.problem, planned.plan);
  view.title = describe(report.step);
  view.device = report.target.info.name;
  view.layers = report.step.layers;
  view.scaling = report.scaling;
  view.division = division_of(report);
  view.jobs = report.step.jobs;
  view.owners = report.step.owners;
  if (planned.recomputed.has_value()) {
    view.layers.clear();
    view.owners.clear();
    for (const NodeId node : planned.recomputed->nodes) {
      view.layers.push_back(report.step.layers[static_cast<std::size_t>(node)]);
      view.owners.push_back(report.step.owners[static_cast<std::size_t>(node)]);
    }
  }
  return view;
}

std::string shortfall(const PlanReport& report) {
  const PlanRow& row = report.rows[report.configured];
  std::int64_t persistent = report.memory.persistent, arena = row.plan.arena_bytes;
  if (!report.stages.empty()) persistent = 0;
  for (const StageRow& stage : report.stages) {  // every rank has room for the parameters of all
    persistent += stage.persistent_bytes;
    arena = std::max(arena, stage.arena_bytes);
  }
  const auto capacity = static_cast<std::int64_t>(report.target.info.memory_bytes);
  constexpr const char* kTry = "try a smaller --batch-size, --set precision=bf16";
  if (!row.fits) {
    return message("the plan does not fit: its arena takes ", mebibytes(arena), " MiB, the limit is ",
                   mebibytes(report.memory_limit), " MiB; ", kTry, " or a higher --memory-limit");
  }
  if (capacity == 0 || arena + persistent <= capacity) return "";
  const std::int64_t left = (capacity - persistent) >> 20;
  return message("the plan does not fit the device: it takes ", mebibytes(arena + persistent), " MiB, the device has ",
                 mebibytes(capacity), " MiB; ",
                 left > 0 ? message(kTry, " or, to trade time for memory, --memory-limit ", left)
                          : "try a smaller model, whose parameters leave room for the arena");
}

std::string to_text(const PlanReport& report, bool all_columns) {
  const TargetCosts& costs = report.costs;
  const auto [known, unknown] = costs.measured;
  const PlanRow& configured = report.rows[report.configured];
  std::ostringstream out;
  out << wrapped(describe(report.step)) << '\n'
      << wrapped(message("planned for ", report.target.info.name, ' ', report.target.kernels,
                         report.tf32 ? ", f32 as tf32" : ""))
      << '\n'
      << wrapped(message(
             plural(report.step.graph.node_count(), "node"), "; ", costs.convolutions,
             " are convolutions and their gradients",
             costs.implementations > 0 ? message(", with ", plural(costs.implementations, "implementation")) : ""))
      << '\n';
  if (costs.measured != scheduler::ProfileUse{}) {
    out << "durations were measured for " << known << " of " << plural(known + unknown, "node") << '\n';
  }
  out << '\n'
      << table_of(report, all_columns) << "\nNo plan on " << streams_of(configured) << " can be faster than "
      << milliseconds(configured.plan.bound.bound / 1e6) << ".\n\n"
      << memory_table(report);
  if (report.target.has_kernels) {
    std::string line = "workspaces by stream:";
    for (const scheduler::ArenaSlice& slice : configured.plan.workspaces) line += ' ' + mebibytes(slice.bytes);
    out << wrapped(line, 2) << '\n';
  }
  if (!report.scaling.rows.empty()) {
    out << wrapped(message("\nSimulated on ", report.scaling.cluster,
                           "; every rank has these images, and the ranks of a host come first"))
        << "\n\n"
        << scaling_table(report);
  }
  if (report.asynchronous) {
    out << wrapped("\nSimulated with parameter servers on every host, which update at each gradient:") << "\n\n"
        << staleness_tables(report.scaling.rows.back(), *report.asynchronous, report.has_straggler);
  }
  if (report.strategies.size() > 1) out << '\n' << strategy_table(report);
  if (!report.stages.empty()) {
    const scheduler::PipelineOrder& order = report.step.order;
    out << wrapped(
               message("\nStages of the pipeline, in the order ", order.name, "; above are the plans of the first:"))
        << "\n\n"
        << stage_table(report);
  }
  if (report.memory_limit > 0) {
    out << "\nWith a limit of " << mebibytes(report.memory_limit) << " MiB:\n";
    for (const PlanRow& row : report.rows) out << whether_it_fits(row);
  }
  return out.str();
}

std::string to_json(const PlanReport& report) {
  Json jobs, rows;
  for (std::size_t i = 0; i < report.step.models.size(); ++i) {
    jobs.push_back({{"model", report.step.models[i]}, {"input", report.step.inputs[i].extents()}});
  }
  for (const PlanRow& row : report.rows) {
    const scheduler::Plan& plan = row.plan;
    Json workspaces = Json::array();
    for (const scheduler::ArenaSlice& slice : plan.workspaces) workspaces.push_back(slice.bytes);
    rows.push_back({{"policy", row.policy},
                    {"streams", row.streams()},
                    {"used_streams", plan.commands.used_streams()},
                    {"makespan_us", row.makespan},
                    {"lower_bound_us", plan.bound.bound},
                    {"depth_us", plan.bound.depth},
                    {"work_us", plan.bound.work},
                    {"utilisation", row.utilisation},
                    {"waits", plan.commands.waits()},
                    {"arena_bytes", plan.arena_bytes},
                    {"naive_bytes", plan.naive_bytes},
                    {"live_bytes", plan.live_bytes},
                    {"workspace_bytes", workspaces},
                    {"traded", row.traded},
                    {"fits", row.fits},
                    {"plan_seconds", row.plan_seconds}});
  }
  Json strategies = Json::array();
  for (const StrategyRow& row : report.strategies) {
    strategies.push_back({{"strategy", row.name},
                          {"step_us", row.makespan},
                          {"sent_bytes", row.sent_bytes},
                          {"persistent_bytes", row.persistent_bytes},
                          {"arena_bytes", row.arena_bytes}});
  }
  Json stages = Json::array();
  for (const StageRow& row : report.stages) {
    stages.push_back({{"first_layer", row.first_layer},
                      {"computing_us", row.computing},
                      {"micro_batches_held", row.held},
                      {"sent_bytes", row.sent_bytes},
                      {"persistent_bytes", row.persistent_bytes},
                      {"arena_bytes", row.arena_bytes}});
  }
  Json tasks = Json::array();  // of the pipeline, as its order is predicted
  for (const scheduler::PipelineTask& task : report.step.order.tasks) {
    constexpr const char* kPasses[] = {"forward", "backward", "weights"};
    tasks.push_back({{"stage", task.stage},
                     {"micro_batch", task.micro_batch},
                     {"pass", kPasses[static_cast<int>(task.pass)]},
                     {"start_us", task.start},
                     {"finish_us", task.finish}});
  }
  const Json memory{{"activation_bytes", report.memory.activations},
                    {"gradient_bytes", report.memory.gradients},
                    {"input_bytes", report.memory.inputs},
                    {"workspace_bytes", report.memory.workspaces},
                    {"persistent_bytes", report.memory.persistent}};
  return Json{{"jobs", jobs},
              {"device", report.target.info.name},
              {"capacity", report.target.info.capacity},
              {"has_kernels", report.target.has_kernels},
              {"nodes", report.step.graph.node_count()},
              {"convolutions", report.costs.convolutions},
              {"implementations", report.costs.implementations},
              {"measured_nodes", report.costs.measured.known},
              {"memory_limit_bytes", report.memory_limit},
              {"device_memory_bytes", report.target.info.memory_bytes},
              {"fits", shortfall(report).empty()},
              {"configured", report.configured},
              {"memory", memory},
              {"cluster", report.cluster.name},
              {"scaling", rows_of(report.scaling)},
              {"asynchronous", report.asynchronous ? to_json(*report.asynchronous) : Json()},
              {"strategies", strategies},
              {"stages", stages},
              {"tasks", tasks},
              {"plans", rows}}
      .dump_sorted();
}

}  // namespace braid
