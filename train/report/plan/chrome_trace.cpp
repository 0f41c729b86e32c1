// "Trace Event Format" (Duffy et al., 2013): metadata events (M) name processes and tracks, complete events (X) are
// slices, s and f are the ends of a flow arrow, C are counters.

#include "train/report/plan/chrome_trace.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/text/json.h"
#include "core/text/text.h"

namespace braid::scheduler {
namespace {

/// Writes the events of one run.
class RunWriter {
 public:
  RunWriter(const PlanView& view, std::span<const double> levels, std::span<const Run> runs, int process, Json& events)
      : view_(view), levels_(levels), runs_(runs), process_(process), events_(events) {}

  void write(std::string_view name, std::span<const NodeId> critical_path) {
    const int streams = static_cast<int>(view_.plan.commands.streams.size());
    name_process(name);
    const int computing = std::min(streams, view_.problem.streams);
    for (int s = 0; s < computing; ++s) name_track(s, message("stream ", s));
    for (int s = computing; s < streams; ++s) name_track(s, message("link ", s - computing));
    name_track(streams, "critical path");

    std::vector<bool> critical(runs_.size());
    for (const NodeId node : critical_path) critical[node] = true;
    for (int s = 0; s < streams; ++s) {
      for (const auto& [kind, index] : view_.plan.commands.streams[s]) {
        if (kind == Command::Kind::launch) write_node(index, s, critical[index]);
      }
    }
    for (const NodeId node : critical_path) write_critical(node, streams);
    write_waits();
    for (const auto& [time, bytes] : bytes_in_use(arena_uses(view_, runs_))) {
      Json& counter = add("C", "arena in use", 0, time);
      counter["args"]["bytes"] = bytes;
    }
  }

 private:
  Json& add(std::string_view type, std::string_view name, int track, double time) {
    return events_.push_back(
        {{"ph", type}, {"name", name}, {"pid", process_}, {"tid", process_ * kMostTracks + track}, {"ts", time}});
  }

  void name_process(std::string_view name) {
    add("M", "process_name", 0, 0)["args"]["name"] = message(name, ": ", view_.title, " on ", view_.device);
    add("M", "process_sort_index", 0, 0)["args"]["sort_index"] = process_;
  }
  void name_track(int track, const std::string& name) {
    add("M", "thread_name", track, 0)["args"]["name"] = name;
    add("M", "thread_sort_index", track, 0)["args"]["sort_index"] = track;
  }

  Json& write_slice(NodeId node, int track, std::string_view category) {
    Json& slice = add("X", view_.problem.graph.node(node).op->name(), track, runs_[node].start);
    slice["dur"] = runs_[node].finish - runs_[node].start;
    slice["cat"] = category;
    return slice;
  }

  void write_node(NodeId node, int stream, bool critical) {
    const Cost& cost = view_.cost(node);
    Json& slice = write_slice(node, stream, critical ? "node,critical" : "node");
    if (critical) slice["cname"] = "terrible";  // red
    slice["args"] = {{"node", node},
                     {"layer", view_.layer(node)},
                     {"phase", name_of(phase_of(view_.problem.graph, node))},
                     {"implementation", view_.plan.placements[node].implementation},
                     {"width", cost.width},
                     {"alone_us", cost.duration},
                     {"b_level_us", levels_[node]},
                     {"critical", critical}};
  }

  void write_critical(NodeId node, int track) {
    Json& slice = write_slice(node, track, "critical path");
    slice["cname"] = "terrible";
    slice["args"] = {{"of_node", node}, {"layer", view_.layer(node)}};
  }

  /// The ends of an arrow belong to the slices that enclose them, so it leaves from within its slice.
  void write_waits() {
    const auto stream = [&](NodeId node) { return view_.plan.placements[node].stream; };
    for (const auto& [before, after] : waits_of(view_.plan)) {
      const std::size_t id = events_.size();  // any number that no other arrow has
      const auto& [start, finish] = runs_[before];
      Json& tail = add("s", "wait", stream(before), start + 0.5 * (finish - start));
      tail["cat"] = "wait";
      tail["id"] = id;
      tail["args"]["node"] = before;
      Json& head = add("f", "wait", stream(after), runs_[after].start);
      head["cat"] = "wait";
      head["id"] = id;
      head["bp"] = "e";
      head["args"]["node"] = after;
    }
  }

  const PlanView& view_;
  const std::span<const double> levels_;
  const std::span<const Run> runs_;
  const int process_;
  Json& events_;
};

constexpr std::string_view kOtherStep = ": the trace is of a step with another network, batch size or option";
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// Reads what RunWriter has written. Nothing in it is trusted.
class TraceReader {
 public:
  explicit TraceReader(PlanView& view)
      : view_(view),
        nodes_(view.problem.graph.node_count()),
        has_planned_(nodes_),
        has_measured_(nodes_),
        awaited_(nodes_) {
    view_.measured.assign(nodes_, {});
    view_.plan = {};
    view_.plan.placements.resize(nodes_);
    for (NodeId node = 0; node < nodes_; ++node) costs_.push_back(view.problem.costs.of(node).front());
  }

  void read(const JsonPart& trace) {
    const JsonPart about = trace["otherData"];
    const std::string device = about["device"].text();
    BRAID_CHECK(device == view_.device, DataError, "expected a run on '", view_.device, "', got one on '", device,
                "': choose that device, or open its description, which 'braid devices --json' prints there");
    BRAID_CHECK(about.json.contains("clock"), DataError,
                "expected measured times, got planned ones alone: 'braid train --trace' writes both");
    view_.clock = about["clock"].text();
    view_.title = about["title"].text();
    view_.plan.policy = about["policy"].text();
    for (const JsonPart& event : trace["traceEvents"].list()) read_event(event);
    for (const NodeId node : view_.problem.graph.launched_nodes()) {
      BRAID_CHECK(has_planned_[node] && has_measured_[node], DataError, "expected ", name_of(node),
                  ", got no such node", kOtherStep);
    }
  }

  /// The plan that ran, from what has been read.
  void make_plan() {
    Problem& problem = view_.problem;
    Plan& plan = view_.plan;
    const auto streams = static_cast<int>(commands().streams.size());
    problem.streams = std::max(1, streams - problem.links);
    problem.wait_microseconds = problem.host_microseconds = 0;
    problem.interference = {};
    problem.costs = {};
    for (const Cost& cost : costs_) problem.costs.add({&cost, 1});
    for (const NodeId node : launched_) {
      auto& stream = commands().streams[plan.placements[node].stream];
      for (const NodeId before : awaited_[node]) stream.push_back({Command::Kind::wait, events_.at(before)});
      stream.push_back({Command::Kind::launch, node});
      if (events_.contains(node)) stream.push_back({Command::Kind::record, events_.at(node)});
    }
    commands().events = static_cast<std::int32_t>(events_.size());
    plan.bound = lower_bound(problem);
    plan_memory(problem.graph, problem.costs, plan);
    require_safe(problem, plan);
    view_.simulation = simulate(problem, plan);
  }

 private:
  void read_event(const JsonPart& event) {
    const std::string type = event["ph"].text();
    if (type == "X" && event["cat"].text().starts_with("node")) read_slice(event);
    if ((type != "s" && type != "f") || !is_planned(event)) return;
    const NodeId node = node_of(event["args"]["node"]);
    const std::int64_t arrow = event["id"].integer(0, kMost);
    if (type == "s") {
      tails_[arrow] = node;
      events_.try_emplace(node, static_cast<std::int32_t>(events_.size()));
    } else if (const auto tail = tails_.find(arrow); tail != tails_.end()) {
      awaited_[node].push_back(tail->second);
    } else {
      event["id"].fail("must be the number of an arrow that has begun");
    }
  }

  void read_slice(const JsonPart& slice) {
    const JsonPart about = slice["args"];
    const NodeId node = node_of(about["node"]);
    const std::string op = slice["name"].text(), layer = about["layer"].text();
    BRAID_CHECK(op == view_.problem.graph.node(node).op->name() && layer == view_.layer(node), DataError, "expected ",
                name_of(node), ", got ", op, in_brackets(layer), kOtherStep);
    const double start = slice["ts"].number(0), finish = start + slice["dur"].number(0);
    if (!is_planned(slice)) {
      has_measured_[node] = true;
      view_.measured[node] = {start, finish};
      return;
    }
    has_planned_[node] = true;
    const auto stream = static_cast<int>(slice["tid"].integer(kMostTracks, 2 * kMostTracks - 1)) - kMostTracks;
    launched_.push_back(node);
    if (commands().streams.size() <= static_cast<std::size_t>(stream)) commands().streams.resize(stream + 1);
    view_.plan.placements[node] = {.stream = stream, .start = start, .finish = finish};
    view_.plan.makespan = std::max(view_.plan.makespan, finish);
    Cost& cost = costs_[node];
    cost.width = static_cast<int>(about["width"].integer(cost.link == kNoLink ? 1 : 0, view_.problem.capacity));
    cost.duration = about["alone_us"].number(0);
  }

  NodeId node_of(const JsonPart& part) const {
    const std::int64_t node = part.integer(0, kMost);
    const bool known = node < nodes_ && !view_.problem.graph.node(static_cast<NodeId>(node)).is_view;
    BRAID_CHECK(known, DataError, "expected a node of ", plural(nodes_, "node"), ", got node ", node, kOtherStep);
    return static_cast<NodeId>(node);
  }
  std::string name_of(NodeId node) const {
    return message("node ", node, " to be ", view_.problem.graph.node(node).op->name(), in_brackets(view_.layer(node)));
  }
  static std::string in_brackets(std::string_view layer) { return layer.empty() ? "" : message(" (", layer, ')'); }
  static bool is_planned(const JsonPart& event) { return event["pid"].integer(1, 2) == 1; }

  CommandLists& commands() { return view_.plan.commands; }

  PlanView& view_;
  const std::int32_t nodes_;
  std::vector<bool> has_planned_, has_measured_;
  std::vector<NodeId> launched_;              // stream by stream
  std::vector<std::vector<NodeId>> awaited_;  // per node
  std::map<NodeId, std::int32_t> events_;     // of the nodes that others wait for
  std::vector<Cost> costs_;
  std::map<std::int64_t, NodeId> tails_;  // of arrows
};

}  // namespace

std::string chrome_trace(const PlanView& view) {
  const std::vector<double> levels = bottom_levels(view.problem.graph.edges(), view.problem.costs);
  Json events = Json::array();
  RunWriter(view, levels, view.simulation.runs, 1, events).write("planned", view.simulation.critical_path);
  if (!view.measured.empty()) {
    RunWriter(view, levels, view.measured, 2, events).write("measured", critical_path(view.plan, view.measured));
  }
  Json about{{"title", view.title}, {"device", view.device}, {"policy", view.plan.policy}};
  if (!view.measured.empty()) about["clock"] = view.clock;
  const Json trace{{"displayTimeUnit", "ms"}, {"otherData", std::move(about)}, {"traceEvents", std::move(events)}};
  return trace.dump(1) + '\n';
}

PlanView read_trace(std::string_view text, PlanView step) {
  try {
    const Json json = parse_json(text);
    TraceReader reader(step);
    reader.read({json});
    reader.make_plan();
    return step;
  } catch (const Error& error) {
    throw DataError(message("[trace] ", error.what()));
  }
}

}  // namespace braid::scheduler
