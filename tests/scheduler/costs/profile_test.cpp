#include "scheduler/costs/profile.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/data/files.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using braid::testing::contains;
using braid::testing::TemporaryFolder;

Profile example() {
  return {.device = "a \"device\"",
          .capacity = 4,
          .software = "braid 1.2.3",
          .clock = "graph replay",
          .pair_clock = "CUPTI",
          .measurements = {{.implementation = {.node = "a", .width = 1}, .microseconds = 1.5, .samples = 3},
                           {.implementation = {.node = "a", .width = 2}, .microseconds = 0.75, .samples = 3},
                           {.implementation = {.node = "b", .width = 1, .algorithm = "x"},
                            .microseconds = 0,
                            .samples = 1}},
          .pairs = {{.slowed = {.node = "a", .width = 1},
                     .beside = {.node = "b", .width = 1, .algorithm = "x"},
                     .factor = 1.25,
                     .samples = 7}},
          .wait_microseconds = 12.5,
          .link = Link{.latency_seconds = 20.5e-6, .bytes_per_second = 1.25e9, .units = 1}};
}

/// The error of reading a file with this text.
std::string complaint(std::string_view text) {
  const TemporaryFolder folder;
  const std::string file = folder.write("profile.json", {text.begin(), text.end()});
  const std::string error = braid::testing::error_of<DataError>([&] { read_profile(file); });
  CHECK((error.empty() || error.starts_with(file + ": ")));
  return error;
}

/// Three nodes: two of different shapes, and a view.
StepGraph three_nodes() {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  const ValueId first = add(graph, {input}, 16);
  add_view(graph, first, 16);
  add(graph, {first}, 24);
  return graph;
}

Costs two_widths(const StepGraph& graph) {
  Costs costs;
  for (const Node& node : graph.nodes()) {
    const std::vector<Cost> implementations =
        node.is_view ? std::vector{Cost{}}
                     : std::vector<Cost>{{.width = 1, .duration = 100}, {.width = 2, .duration = 60}};
    costs.add(implementations);
  }
  return costs;
}

struct NamedAttribute {
  int number = 0;
  static constexpr std::string_view kNames[] = {"number"};
};

class NamedOp final : public OpWith<NamedOp, NamedAttribute> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "named"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override {
    outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape});
  }
};

}  // namespace

TEST_CASE("a profile comes back from its file as it was") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/profile.json";
  write_profile(file, example());
  CHECK(read_profile(file) == example());
  write_profile(file, {.device = "other", .capacity = 1, .software = ""});
  CHECK(read_profile(file).measurements.empty());
  CHECK(!read_profile(file).link.has_value());
}

TEST_CASE("a file that is not a profile is refused, with its name and what was expected") {
  CHECK_THROWS_WITH_AS(write_profile("/nowhere/p.json", example()), "/nowhere/p.json: cannot be written", DataError);
  const std::string refused = ": is not a profile that 'braid profile' wrote: ";
  CHECK(contains(complaint(""), refused + "line 1, column 1: expected valid JSON, got the end of the text"));
  CHECK(contains(complaint("[]"), refused + "the whole must be an object with a key 'version', got []"));
  CHECK(contains(complaint("{}"), refused + "the whole has no key 'version', got {}"));
  CHECK(contains(complaint(R"({"version": 2})"), "expected version 3, got 2: measure it again"));
  CHECK(contains(complaint(R"({"version": 3, "device": 3})"), refused + "'device' must be a string, got 3"));
}

TEST_CASE("times, pairs and links that make no sense are refused") {
  const std::string good = R"({"version": 3, "device": "d", "capacity": 1, "software": "", "wait_microseconds": 0,
    "measurements": [{"node": "n", "width": 1, "implementation": "", "microseconds": 0.5, "samples": 2}],
    "pairs": [{"node": "n", "width": 3, "implementation": "",
               "beside": {"node": "m", "width": 2, "implementation": ""}, "factor": 1.5, "samples": 3}],
    "link": {"latency_microseconds": 0, "bytes_per_second": 1, "units": 0}})";
  CHECK(complaint(good).empty());
  struct Change {
    std::string_view from, to, error;
  };
  for (const auto& [from, to, error] :
       {Change{R"("width": 1)", R"("width": 0)",
               "'measurements[0].width' must be an integer from 1 to 2147483647, got 0"},
        {"0.5", "-1", "'measurements[0].microseconds' must be a number of at least 0, got -1"},
        {R"("samples": 2)", R"("samples": 0)", "'measurements[0].samples' must be an integer from 1"},
        {"1.5", "0", "'pairs[0].factor' must be above 0, got 0"},
        {"1.5", "-1", "'pairs[0].factor' must be a number of at least 0, got -1"},
        {R"("samples": 3)", R"("samples": 0)", "'pairs[0].samples' must be an integer"},
        {R"("width": 2)", R"("width": 0)", "'pairs[0].beside.width' must be an integer"},
        {R"("m")", "7", "'pairs[0].beside.node' must be a string, got 7"},
        {R"("factor": 1.5,)", "", "factor"},
        {R"("beside")", R"("besides")", "beside"},
        {R"("pairs": [)", R"("pairs": {}, "others": [)", "'pairs' must be a list, got {}"},
        {R"("pairs")", R"("others")", "pairs"},  // a profile has them, if only none
        {R"("wait_microseconds": 0)", R"("wait_microseconds": -1)",
         "'wait_microseconds' must be a number of at least 0, got -1"},
        {R"("latency_microseconds": 0)", R"("latency_microseconds": -1)",
         "'link.latency_microseconds' must be a number of at least 0, got -1"},
        {R"("bytes_per_second": 1)", R"("bytes_per_second": 0)", "'link.bytes_per_second' must be above 0, got 0"},
        {R"("units": 0)", R"("units": -1)", "'link.units' must be an integer from 0"}}) {
    CAPTURE(to);
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    CHECK(contains(complaint(text.replace(at, from.size(), to)), error));
  }
}

TEST_CASE("later measurements take the place of earlier ones") {
  Profile profile = example();
  Profile later{.device = profile.device, .capacity = 4, .software = "braid 2.0.0"};
  later.measurements = {{.implementation = {.node = "c", .width = 1}, .microseconds = 9, .samples = 5},
                        {.implementation = {.node = "a", .width = 2}, .microseconds = 7, .samples = 5}};
  merge(profile, later);
  CHECK(profile.software == "braid 2.0.0");
  REQUIRE(profile.measurements.size() == 4);
  CHECK(profile.measurements[0] == example().measurements[0]);
  CHECK(profile.measurements[1] == later.measurements[1]);
  CHECK(profile.measurements[2] == example().measurements[2]);
  CHECK(profile.measurements[3] == later.measurements[0]);
  CHECK(profile.link == example().link);
  later.link = Link{.latency_seconds = 1e-6, .bytes_per_second = 1e10};
  merge(profile, later);
  CHECK(profile.link == later.link);
}

TEST_CASE("later measurements of pairs take the place of earlier ones") {
  const PairMeasurement old = example().pairs[0];
  PairMeasurement newer = old, reverse = old;
  newer.factor = 2;
  std::swap(reverse.slowed, reverse.beside);
  Profile profile = example(), later = example();
  later.pairs = {reverse, newer};
  later.wait_microseconds = 0;
  merge(profile, later);
  CHECK(profile.wait_microseconds == 12.5);
  later.wait_microseconds = 3;
  merge(profile, later);
  CHECK(profile.wait_microseconds == 3);
  CHECK(profile.pairs == std::vector{newer, reverse});
}

TEST_CASE("a signature distinguishes op, attributes, dtypes and shapes, and nothing else") {
  StepGraph graph;
  const ValueId x = graph.add_input({DType::f32, {2, 3}});
  const ValueId other = graph.add_input({DType::f32, {2, 3}});
  const ValueId narrow = graph.add_input({DType::bf16, {2, 3}});
  for (const ValueId input : {x, other, narrow}) graph.add_node(std::make_shared<NamedOp>(1), {input});
  graph.add_node(std::make_shared<NamedOp>(2), {x});
  const std::string first = node_signature(graph, 0);
  CHECK(first == "named{number: 1} f32[2,3] -> f32[2,3]");
  CHECK(node_signature(graph, 1) == first);
  CHECK(node_signature(graph, 2) != first);
  CHECK(node_signature(graph, 3) != first);
  CHECK(node_signature(graph, 0, true).ends_with(" tf32[2,3] -> tf32[2,3]"));
  CHECK(node_signature(graph, 2, true) == node_signature(graph, 2));
}

TEST_CASE("durations of known nodes are replaced, others are unchanged") {
  const StepGraph graph = three_nodes();
  Costs costs = two_widths(graph);
  Profile profile{.device = "d", .capacity = 2, .software = ""};
  profile.measurements = {
      {.implementation = {.node = node_signature(graph, 0), .width = 1}, .microseconds = 8, .samples = 1},
      {.implementation = {.node = node_signature(graph, 0), .width = 2}, .microseconds = 5, .samples = 1},
      {.implementation = {.node = "of another network", .width = 1}, .microseconds = 1, .samples = 1}};
  CHECK(apply(profile, graph, costs) == ProfileUse{.known = 1, .unknown = 1});
  CHECK(costs.of(0, 0).duration == 8);
  CHECK(costs.of(0, 1).duration == 5);
  CHECK(costs.of(2, 0).duration == 100);
  CHECK(costs.of(2, 1).duration == 60);
}

TEST_CASE("an implementation that was not measured keeps its ratio to one that was") {
  const StepGraph graph = three_nodes();
  Costs costs = two_widths(graph);
  Profile profile{.device = "d", .capacity = 2, .software = ""};
  profile.measurements = {
      {.implementation = {.node = node_signature(graph, 2), .width = 2}, .microseconds = 6, .samples = 1}};
  CHECK(apply(profile, graph, costs) == ProfileUse{.known = 1, .unknown = 1});
  CHECK(costs.of(2, 0).duration == doctest::Approx(10));
  CHECK(costs.of(2, 1).duration == 6);
}

TEST_CASE("implementations of one width are distinguished by name") {
  const StepGraph graph = three_nodes();
  Costs costs = costs_of(std::vector<std::vector<Cost>>(
      3, {{.width = 1, .duration = 4, .algorithm = "fast"}, {.width = 1, .duration = 8, .algorithm = "small"}}));
  Profile profile{.device = "d", .capacity = 2, .software = ""};
  const std::string node = node_signature(graph, 0);
  profile.measurements = {
      {.implementation = {.node = node, .width = 1, .algorithm = "small"}, .microseconds = 20, .samples = 1},
      {.implementation = {.node = node, .width = 1, .algorithm = "fast"}, .microseconds = 10, .samples = 1}};
  CHECK(apply(profile, graph, costs).known == 1);
  CHECK(costs.of(0, 0).duration == 10);
  CHECK(costs.of(0, 1).duration == 20);
  profile.measurements.resize(1);
  Costs others = two_widths(graph);
  CHECK(apply(profile, graph, others).known == 0);  // nameless implementations are none of these
}

TEST_CASE("measured pairs slow down the nodes that are like them, beyond the sharing of capacity") {
  StepGraph graph;  // two nodes of one kind, one of another
  const ValueId input = graph.add_input(bytes_desc(8));
  for (const std::int64_t bytes : {16, 16, 24}) add(graph, {input}, bytes);
  const Costs costs = two_widths(graph);
  Profile profile{.device = "d", .capacity = 2, .software = ""};
  CHECK(interference(profile, graph, costs).empty());
  const std::string small = node_signature(graph, 0), large = node_signature(graph, 2);
  constexpr int kWidest = std::numeric_limits<int>::max();
  profile.pairs = {{.slowed = {small, 1}, .beside = {large, 1}, .factor = 1.25, .samples = 3},
                   {.slowed = {small, 2}, .beside = {large, 2}, .factor = 3, .samples = 3},
                   {.slowed = {small, 1}, .beside = {"of another network", kWidest}, .factor = 9, .samples = 3}};
  const Interference found = interference(profile, graph, costs);
  for (const NodeId node : {0, 1}) {
    CHECK(found.factor(node, 0, 2, 0) == 1.25);
    CHECK(found.factor(node, 1, 2, 1) == 1.5);  // 4 units share 2: twice as long is what the capacity explains
    CHECK(found.factor(2, 0, node, 0) == 1);
    CHECK(found.factor(node, 0, 2, 1) == 1);
  }
  CHECK(found.factor(0, 0, 1, 0) == 1);
  CHECK(interference(profile, graph, costs, true).factor(0, 0, 2, 0) == 1.25);  // bytes are no tf32
}

TEST_CASE("a profile of another device is refused") {
  check_device(example(), "p.json", "a \"device\"", 4);
  CHECK_THROWS_WITH_AS(check_device(example(), "p.json", "mine", 4),
                       "p.json: expected a profile of 'mine' with a capacity of 4, this is one of 'a \"device\"' with "
                       "4: measure one here with 'braid profile'",
                       DeviceError);
  CHECK_THROWS_AS(check_device(example(), "p.json", "a \"device\"", 2), DeviceError);
}

}  // namespace braid::scheduler::testing
