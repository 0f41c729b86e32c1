// "Trace Event Format" (Duffy et al., 2013): metadata events (M) name processes and tracks, complete events (X) are
// slices, s and f are the ends of a flow arrow, C are counters.

#include "train/report/plan/chrome_trace.h"

#include <algorithm>

#include "core/text/json.h"

namespace braid::scheduler {
namespace {

/// Tracks have unique numbers across processes, and none is 0, which some viewers take for an idle thread.
constexpr int kMostTracks = 1000;

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

}  // namespace braid::scheduler
