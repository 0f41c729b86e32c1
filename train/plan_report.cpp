#include "train/plan_report.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text_table.h"
#include "train/bench.h"
#include "train/units.h"

namespace braid {

namespace {

/// Planned for where the config leaves the choice to measurements.
constexpr int kStreams = 4;

/// Capacity in use over the time of a run, 0 to 1.
double utilisation(const Problem& problem, const Plan& plan, const Simulation& simulation) {
  double work = 0;
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    const Choice& choice = problem.costs.choice(node, plan.placements[static_cast<std::size_t>(node)].choice);
    work += choice.width * choice.duration;
  }
  return simulation.makespan > 0 ? work / problem.capacity / simulation.makespan : 0;
}

/// The problem of the recorded graph.
Problem recorded_problem(const PlanReport& report, const Edges& edges, int streams) {
  return {.graph = report.step.graph,
          .edges = edges,
          .costs = report.costs.costs,
          .streams = streams,
          .capacity = report.target.info.capacity,
          .shares_units = report.target.info.shares_units,
          .slow_downs = &report.costs.slow_downs,
          .wait_microseconds = report.costs.wait_microseconds};
}

/// The problem that a planned step solves: that of the recorded graph, or of the one with recomputation.
Problem problem_of(const PlanReport& report, const LimitedStep& planned, const Edges& edges) {
  const DeviceInfo& info = report.target.info;
  const int streams = static_cast<int>(planned.plan.streams.size());
  if (!planned.recomputed.has_value()) return recorded_problem(report, edges, streams);
  return {planned.recomputed->graph, edges, planned.costs, streams, info.capacity, info.shares_units};
}

const StepGraph& graph_of(const PlanReport& report, const LimitedStep& planned) {
  return planned.recomputed.has_value() ? planned.recomputed->graph : report.step.graph;
}

PlanRow row_of(const PlanReport& report, const LimitedStep& planned, double plan_seconds) {
  const Edges edges = graph_of(report, planned).edges();
  const Problem problem = problem_of(report, planned, edges);
  const Plan& plan = planned.plan;
  const Simulation simulation = simulate(problem, plan);
  PlanRow row{.policy = plan.policy,
              .streams = plan.streams.size(),
              .used_streams = plan.used_streams(),
              .makespan = simulation.makespan,
              .bound = plan.bound,
              .utilisation = utilisation(problem, plan, simulation),
              .waits = plan.waits(),
              .arena_bytes = plan.arena_bytes,
              .naive_bytes = plan.naive_bytes,
              .live_bytes = plan.live_bytes,
              .workspace_bytes = {},
              .traded = planned.traded,
              .fits = planned.fits,
              .plan_seconds = plan_seconds};
  for (const ArenaSlice& slice : plan.workspaces) row.workspace_bytes.push_back(slice.bytes);
  return row;
}

/// Plans the step and adds the row of the plan.
void add_row(const Edges& edges, const std::string& policy, int streams, bool configured, PlanReport& report) {
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = recorded_problem(report, edges, streams);
  LimitedStep planned = plan_step(problem, find_policy(policy), policy, report.memory_limit);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report.rows.push_back(row_of(report, planned, seconds.count()));
  if (!configured) return;
  report.configured = report.rows.size() - 1;
  report.planned = std::move(planned);
}

/// Policies that can plan a step of so many nodes.
std::vector<std::string> suitable_policies(std::int32_t nodes) {
  std::vector<std::string> names;
  for (const NamedPolicy& named : policies()) {
    if (nodes <= named.max_nodes) names.emplace_back(named.name);
  }
  return names;
}

void add_rows(const std::string& configured, const PlanRequest& request, int streams, PlanReport& report) {
  const Edges edges = report.step.graph.edges();
  const std::vector<int> counts = request.streams.empty() ? std::vector{streams} : request.streams;
  const bool all = request.policy.empty() && counts.size() == 1;
  add_row(edges, "serial", 1, configured == "serial", report);
  for (const int count : counts) {
    for (const std::string& policy : all ? suitable_policies(edges.node_count()) : std::vector{configured}) {
      if (policy != "serial") add_row(edges, policy, count, policy == configured, report);
    }
  }
}

/// The ratio of two times as they are printed, so that it is what a reader finds.
std::string ratio(double microseconds, double other) {
  const auto printed = [](double time) { return std::stod(milliseconds(time / 1e6)); };
  return printed(other) > 0 ? fixed(printed(microseconds) / printed(other), 2) : "";
}

std::string mebibytes(std::int64_t bytes, int digits) {
  return fixed(braid::mebibytes(static_cast<std::size_t>(bytes)), digits);
}

std::vector<std::string> cells(const PlanRow& row, double serial_makespan) {
  return {row.policy,
          message(row.used_streams, " of ", row.streams),
          milliseconds(row.makespan / 1e6),
          ratio(row.makespan, row.bound.bound),
          ratio(serial_makespan, row.makespan),
          fixed(100 * row.utilisation, 0) + " %",
          std::to_string(row.waits),
          mebibytes(row.arena_bytes, 1),
          mebibytes(row.live_bytes, 1),
          mebibytes(row.naive_bytes, 1),
          milliseconds(row.plan_seconds)};
}

}  // namespace

PlanReport report_plan(const RunConfig& config, const PlanRequest& request) {
  const SessionOptions& options = config.jobs.front().training.session;
  PlanReport report;
  report.memory_limit = request.memory_limit > 0 ? request.memory_limit : options.memory_limit;
  report.target = find_plan_target(request.device.empty() ? options.device : request.device);
  report.step = record_step(config, request.batch_size);
  report.costs = target_costs(report.step.graph, report.target, options);
  Scenario scenario = what_if(report.step.graph, report.costs.costs, report.target.info, request.what_if, options.tf32);
  report.target.info = std::move(scenario.device);
  report.costs.costs = std::move(scenario.costs);
  add_rows(request.policy.empty() ? options.policy : request.policy, request,
           options.streams > 0 ? options.streams : kStreams, report);
  report.memory = memory_use(graph_of(report, report.planned), report.planned.plan);
  return report;
}

PlanView view_of(const PlanReport& report) {
  const LimitedStep& planned = report.planned;
  const Edges edges = graph_of(report, planned).edges();
  PlanView view = view_of(problem_of(report, planned, edges), planned.plan);
  view.title = describe(report.step);
  view.device = report.target.info.name;
  view.layers = report.step.layers;
  if (planned.recomputed.has_value()) {
    view.layers.clear();
    for (const NodeId node : planned.recomputed->recorded) {
      view.layers.push_back(report.step.layers[static_cast<std::size_t>(node)]);
    }
  }
  return view;
}

std::string to_text(const PlanReport& report) {
  const TargetCosts& costs = report.costs;
  std::ostringstream out;
  out << describe(report.step) << "\nplanned for " << report.target.info.name << ' ' << report.target.kernels << '\n'
      << report.step.graph.node_count() << " nodes, " << costs.convolutions
      << " of them convolutions and their gradients";
  if (costs.candidates > 0) out << ", which can run in " << costs.candidates << " ways";
  out << '\n';
  if (costs.measured != ProfileUse{}) {
    out << "durations were measured for " << costs.measured.known << " of "
        << costs.measured.known + costs.measured.unknown << " nodes\n";
  }
  out << '\n';

  std::vector<std::vector<std::string>> table{{"policy", "streams", "makespan", "x bound", "x serial", "in use",
                                               "waits", "arena, MiB", "live, MiB", "naive, MiB", "planned in"}};
  for (const PlanRow& row : report.rows) table.push_back(cells(row, report.rows.front().makespan));
  out << text_table(table, "llrrrrrrrrr");

  const PlanRow& configured = report.rows[report.configured];
  out << "\nNo plan on " << configured.streams << (configured.streams == 1 ? " stream" : " streams")
      << " can need less than " << milliseconds(configured.bound.bound / 1e6) << ".\n";
  const MemoryUse& memory = report.memory;
  out << "At its fullest, the arena of " << configured.policy << " holds " << mebibytes(memory.activations, 1)
      << " MiB of activations, " << mebibytes(memory.gradients, 1) << " of gradients, " << mebibytes(memory.inputs, 1)
      << " of inputs and " << mebibytes(memory.workspaces, 1)
      << " of workspaces.\nParameters and the optimizer's state take " << mebibytes(memory.persistent, 1)
      << " MiB beside it.\n";
  if (report.memory_limit > 0) {
    out << "Of at most " << mebibytes(report.memory_limit, 1) << " MiB:\n";
    for (const PlanRow& row : report.rows) {
      out << "  " << row.policy << " on " << row.streams << (row.streams == 1 ? " stream" : " streams")
          << (row.fits ? " fits" : " DOES NOT FIT");
      if (!row.traded.empty()) out << " after trading " << join(row.traded);
      out << '\n';
    }
  }
  if (report.target.has_kernels) {
    out << "Workspaces of " << configured.policy << ", by stream:";
    for (const std::int64_t bytes : configured.workspace_bytes) out << ' ' << mebibytes(bytes, 1);
    out << " MiB.\n";
  }
  return out.str();
}

std::string to_json(const PlanReport& report) {
  nlohmann::json jobs, rows;
  for (std::size_t i = 0; i < report.step.models.size(); ++i) {
    jobs.push_back({{"model", report.step.models[i]}, {"input", report.step.inputs[i].extents()}});
  }
  for (const PlanRow& row : report.rows) {
    rows.push_back({{"policy", row.policy},
                    {"streams", row.streams},
                    {"used_streams", row.used_streams},
                    {"makespan_us", row.makespan},
                    {"lower_bound_us", row.bound.bound},
                    {"depth_us", row.bound.depth},
                    {"work_us", row.bound.work},
                    {"utilisation", row.utilisation},
                    {"waits", row.waits},
                    {"arena_bytes", row.arena_bytes},
                    {"naive_bytes", row.naive_bytes},
                    {"live_bytes", row.live_bytes},
                    {"workspace_bytes", row.workspace_bytes},
                    {"traded", row.traded},
                    {"fits", row.fits},
                    {"plan_seconds", row.plan_seconds}});
  }
  const nlohmann::json memory{{"activation_bytes", report.memory.activations},
                              {"gradient_bytes", report.memory.gradients},
                              {"input_bytes", report.memory.inputs},
                              {"workspace_bytes", report.memory.workspaces},
                              {"persistent_bytes", report.memory.persistent}};
  return nlohmann::json{{"jobs", jobs},
                        {"device", report.target.info.name},
                        {"capacity", report.target.info.capacity},
                        {"has_kernels", report.target.has_kernels},
                        {"nodes", report.step.graph.node_count()},
                        {"convolutions", report.costs.convolutions},
                        {"candidates", report.costs.candidates},
                        {"measured_nodes", report.costs.measured.known},
                        {"memory_limit_bytes", report.memory_limit},
                        {"configured", report.configured},
                        {"memory", memory},
                        {"plans", rows}}
      .dump();
}

}  // namespace braid
