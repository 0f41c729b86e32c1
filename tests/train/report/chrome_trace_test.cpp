#include "train/report/plan/chrome_trace.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/text/json.h"
#include "tests/error_of.h"
#include "tests/train/report/random_view.h"

namespace braid::scheduler::testing {
namespace {

constexpr int kPlanned = 1, kMeasured = 2;

NodeId node_of(const Json& number) { return static_cast<NodeId>(number.as_int64()); }

/// The track of an event, by the name that the trace gives it.
std::string track_of(const Json& trace, const Json& event) {
  for (const Json& other : trace["traceEvents"].elements()) {
    if (other["name"] == "thread_name" && other["tid"] == event["tid"] && other["pid"] == event["pid"]) {
      return other["args"]["name"].text();
    }
  }
  return "no track";
}

std::string stream_of(const PlanView& view, NodeId node) {
  const int stream = view.plan.placements[node].stream, streams = view.problem.streams;
  return stream < streams ? message("stream ", stream) : message("link ", stream - streams);
}

std::vector<Json> events_of(const Json& trace, std::string_view type, int process = kPlanned) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"].elements()) {
    if (event["ph"] == type && event["pid"] == process) events.push_back(event);
  }
  return events;
}

/// What Perfetto asks of any event, strictly.
void check_format(const Json& trace) {
  const std::set<std::string> types{"M", "X", "s", "f", "C"};
  for (const Json& event : trace["traceEvents"].elements()) {
    REQUIRE(types.contains(event["ph"].text()));
    REQUIRE(event["name"].is_string());
    REQUIRE(event["pid"].is_int64());
    REQUIRE(event["tid"].as_int64() > 0);
    REQUIRE(event["ts"].as_double() >= 0);
    const auto type = event["ph"].text();
    if (type == "X") REQUIRE(event["dur"].as_double() >= 0);
    if (type == "s" || type == "f") {
      REQUIRE(event["id"].is_int64());
      REQUIRE(event["cat"] == "wait");
    }
    if (type == "f") REQUIRE(event["bp"] == "e");
    if (type == "C") REQUIRE(event["args"]["bytes"].is_int64());
  }
}

void check_nodes(const PlanView& view, const Json& trace, int process, std::span<const Run> runs,
                 std::span<const NodeId> path) {
  std::set<NodeId> seen;
  std::vector<NodeId> critical;
  for (const Json& slice : events_of(trace, "X", process)) {
    const Json& args = slice["args"];
    if (slice["cat"] == "critical path") {
      REQUIRE(track_of(trace, slice) == "critical path");
      critical.push_back(node_of(args["of_node"]));
      continue;
    }
    const NodeId node = node_of(args["node"]);
    REQUIRE(seen.insert(node).second);
    REQUIRE(track_of(trace, slice) == stream_of(view, node));
    REQUIRE(slice["ts"] == runs[node].start);
    REQUIRE(slice["dur"] == runs[node].finish - runs[node].start);
    REQUIRE(args["width"] == view.cost(node).width);
    REQUIRE(args["critical"] == (std::ranges::find(path, node) != path.end()));
  }
  for (NodeId node = 0; node < view.problem.graph.node_count(); ++node) {
    REQUIRE(seen.contains(node) == !view.problem.graph.node(node).is_view);
  }
  REQUIRE(std::ranges::equal(critical, path));
}

/// Arrows leave and reach the slices of their nodes.
void check_arrows(const PlanView& view, const Json& trace) {
  std::map<std::int64_t, Json> tails;
  for (const Json& tail : events_of(trace, "s")) REQUIRE(tails.emplace(tail["id"].as_int64(), tail).second);
  const std::vector<Json> heads = events_of(trace, "f");
  REQUIRE(heads.size() == tails.size());
  std::vector<NodeWait> arrows;
  for (const Json& head : heads) {
    const Json& tail = tails.at(head["id"].as_int64());
    const NodeWait arrow{node_of(tail["args"]["node"]), node_of(head["args"]["node"])};
    const Run& before = view.simulation.runs[arrow.before];
    REQUIRE(track_of(trace, tail) == stream_of(view, arrow.before));
    REQUIRE(track_of(trace, head) == stream_of(view, arrow.after));
    REQUIRE(before.start <= tail["ts"].as_double());
    REQUIRE(tail["ts"].as_double() <= before.finish);
    REQUIRE(head["ts"] == view.simulation.runs[arrow.after].start);
    arrows.push_back(arrow);
  }
  std::vector<NodeWait> waits = waits_of(view.plan);
  std::ranges::sort(arrows);
  std::ranges::sort(waits);
  REQUIRE(arrows == waits);
}

/// As if every node had taken twice as long as planned.
PlanView measured_view(std::uint64_t seed) {
  PlanView view = random_view(seed);
  view.measured = view.simulation.runs;
  view.clock = "events";
  for (Run& run : view.measured) run = {run.start * 2, run.finish * 2};
  return view;
}

}  // namespace

TEST_CASE("a trace shows nodes in their streams and at their times, the critical path, waits, and bytes in use") {
  int waits = 0;
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    INFO("seed ", seed);
    const PlanView view = random_view(seed);
    const Json trace = parse_json(chrome_trace(view));
    check_format(trace);
    check_nodes(view, trace, kPlanned, view.simulation.runs, view.simulation.critical_path);
    REQUIRE(events_of(trace, "X", kMeasured).empty());
    check_arrows(view, trace);
    waits += view.plan.commands.waits();
    for (const Json& counter : events_of(trace, "C")) {
      const auto bytes = counter["args"]["bytes"].as_int64();
      REQUIRE(bytes >= 0);
      REQUIRE(bytes <= view.plan.arena_bytes);
    }
  }
  CHECK(waits > some_of(500));
}

TEST_CASE("a trace shows measured times as a separate process alongside the plan") {
  const PlanView view = measured_view(7);
  const Json trace = parse_json(chrome_trace(view));
  CHECK(trace["otherData"]["clock"] == "events");
  check_format(trace);
  check_nodes(view, trace, kPlanned, view.simulation.runs, view.simulation.critical_path);
  check_nodes(view, trace, kMeasured, view.measured, critical_path(view.plan, view.measured));
}

TEST_CASE("a trace is read as the run that it was written from") {
  for (std::uint64_t seed = 0; seed < some_of(100); ++seed) {
    INFO("seed ", seed);
    const PlanView view = measured_view(seed);
    PlanView step = random_view(seed);
    step.plan = {};
    step.title.clear();
    const PlanView read = read_trace(chrome_trace(view), step);
    REQUIRE(read.title == view.title);
    REQUIRE(read.clock == view.clock);
    REQUIRE(read.measured.size() == view.measured.size());
    std::vector<NodeWait> waits = waits_of(read.plan), written = waits_of(view.plan);
    std::ranges::sort(waits);
    std::ranges::sort(written);
    REQUIRE(waits == written);
    for (const NodeId node : view.problem.graph.launched_nodes()) {
      REQUIRE(read.plan.placements[node].stream == view.plan.placements[node].stream);
      REQUIRE(read.measured[node].start == view.measured[node].start);
      REQUIRE(read.measured[node].finish == doctest::Approx(view.measured[node].finish));
      REQUIRE(read.simulation.runs[node] == view.simulation.runs[node]);
    }
  }
}

TEST_CASE("a trace of another step or device, and one without measured times, are refused with what was expected") {
  const PlanView view = measured_view(7);
  const std::string trace = chrome_trace(view);
  const auto error = [](const std::string& text, const PlanView& step) {
    return braid::testing::error_of<DataError>([&] { read_trace(text, step); });
  };
  CHECK(error(chrome_trace(random_view(7)), view).find("expected measured times, got planned ones alone") !=
        std::string::npos);
  CHECK(error(trace, random_view(8)).find("the trace is of a step with another network") != std::string::npos);
  PlanView elsewhere = view;
  elsewhere.device = "page";
  CHECK(error(trace, elsewhere).find("expected a run on 'page', got one on 'no device'") != std::string::npos);
  CHECK(error("{}", view) == "[trace] the whole has no key 'otherData', got {}");
  Json events = parse_json(trace);
  std::erase_if(events["traceEvents"].elements(), [](const Json& event) { return event["pid"] == kMeasured; });
  CHECK(error(events.dump(), view).find("got no such node") != std::string::npos);
}

TEST_CASE("names that are not UTF-8 do not damage a trace") {
  PlanView view = random_view(1);
  view.title = "a \"quoted\" \xff title";
  const Json trace = parse_json(chrome_trace(view));
  CHECK(trace["otherData"]["title"] == "a \"quoted\" \uFFFD title");
}

}  // namespace braid::scheduler::testing
