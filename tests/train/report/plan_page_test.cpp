#include "train/report/plan/plan_page.h"

#include <doctest/doctest.h>

#include "core/text/json.h"
#include "tests/train/report/random_view.h"

namespace braid::scheduler::testing {
namespace {

bool overlap(double a_begin, double a_end, double b_begin, double b_end) { return a_begin < b_end && b_begin < a_end; }

}  // namespace

TEST_CASE("the data of a page are the plan: nodes, edges, waits, numbers, and the longest chain of dependent nodes") {
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    INFO("seed ", seed);
    const PlanView view = random_view(seed);
    const Json data = parse_json(plan_page_data(view));
    const Edges edges = view.problem.graph.edges();
    const auto launched = std::ranges::count(view.problem.graph.nodes(), false, &Node::is_view);
    REQUIRE(data["nodes"].size() == static_cast<std::size_t>(launched));
    for (const Json& node : data["nodes"].elements()) {
      const auto id = static_cast<NodeId>(node["id"].as_int64());
      REQUIRE(node["planned"] == Json::array({view.simulation.runs[id].start, view.simulation.runs[id].finish}));
      REQUIRE(node["stream"] == view.plan.placements[id].stream);
    }
    REQUIRE(data["edges"].size() == edges.predecessor.size());
    REQUIRE(data["waits"].size() == static_cast<std::size_t>(view.plan.commands.waits()));
    REQUIRE(data["pace"] == view.simulation.critical_path);
    const Json& numbers = data["numbers"];
    REQUIRE(numbers["makespan_us"] == view.plan.makespan);
    REQUIRE(numbers["arena_bytes"] == view.plan.arena_bytes);
    REQUIRE(numbers["waits"] == view.plan.commands.waits());
    REQUIRE(numbers["peak_bytes"].as_int64() <= view.plan.arena_bytes);

    std::vector<NodeId> path;
    for (const Json& node : data["critical"].elements()) path.push_back(static_cast<NodeId>(node.as_int64()));
    double length = 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      length += view.problem.costs.fastest(path[i]);
      if (i > 0) REQUIRE(std::ranges::count(edges.predecessors(path[i]), path[i - 1]) > 0);
    }
    REQUIRE(length == doctest::Approx(view.plan.bound.depth).epsilon(1e-9));
  }
}

TEST_CASE("a page compares with the serial plan, whose nodes may be wider than those of a concurrent plan") {
  StepGraph graph;
  const ValueId input = graph.add_input(bytes_desc(8));
  Costs costs;
  for (int i = 0; i < 2; ++i) {
    graph.add_node(std::make_shared<TestOp>(std::vector{bytes_output(8)}), {input});
    costs.add(std::vector<Cost>{{.width = 1, .duration = 10}, {.width = 2, .duration = 6}});
  }
  const Problem problem = make_problem(graph, costs, 2, 2);
  const PlanView view = view_of(problem, make_plan(problem, critical_path, "critical_path"));
  const Json data = parse_json(plan_page_data(view));
  for (const Json& node : data["nodes"].elements()) REQUIRE(node["width"] == 1);
  CHECK(data["numbers"]["makespan_us"] == 10);
  CHECK(data["numbers"]["one_stream_us"] == 12);
}

TEST_CASE("a page and a picture show how a step scales with the number of ranks") {
  PlanView view = random_view(1);
  CHECK(!parse_json(plan_page_data(view)).contains("scaling"));
  view.title = "a <model> & more";
  view.scaling = {.cluster = "box: 2 hosts",
                  .rows = {{.ranks = 1, .makespan = 1000},
                           {.ranks = 4, .makespan = 1250, .communicating = 500, .buckets = 2, .efficiency = 0.8},
                           {.ranks = 16, .makespan = 2000, .communicating = 900, .buckets = 1, .efficiency = 0.5}}};
  const Json scaling = parse_json(plan_page_data(view))["scaling"];
  CHECK(scaling["rows"].size() == 3);
  CHECK(scaling["rows"][1]["efficiency"] == 0.8);
  const std::string picture = scaling["picture"].text();
  CHECK(picture == scaling_picture(view.title, view.scaling));
  const auto count = [&](std::string_view part) {
    int found = 0;
    for (std::size_t at = picture.find(part); at != std::string::npos; at = picture.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count("<circle ") == 6);
  CHECK(count("4 ranks: 1.25 ms per step, 80 % efficiency, speedup 3.20, communicating 0.500 ms") == 3);
  CHECK(count(">a &lt;model> &amp; more<") == 1);
  CHECK(count("<model>") == 0);
  // 16 ranks are at the right; an efficiency of one half, and a speedup of 8, which is 3 of 4 doublings, are at 1/2 and
  // 3/4 of the height.
  CHECK(picture.find(" 452,236\"/>") != std::string::npos);
  CHECK(picture.find(" 936,182\"/>") != std::string::npos);
  // Numbers that would touch are left out, but never the last.
  CHECK(count(">16<") == 3);
  view.scaling.rows.push_back({.ranks = 17, .makespan = 2000, .efficiency = 0.5});
  const std::string crowded = scaling_picture(view.title, view.scaling);
  CHECK(crowded.find(">16<") == std::string::npos);
  CHECK(crowded.find(">17<") != std::string::npos);
  view.scaling.rows.resize(1);
  CHECK_THROWS_WITH_AS(scaling_picture("", view.scaling), "[plan] a picture of scaling needs at least 2 ranks", Error);
}

TEST_CASE("no two rectangles of the memory map overlap, and all lie within the arena") {
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    INFO("seed ", seed);
    const PlanView view = random_view(seed);
    const std::vector<ArenaUse> uses = arena_uses(view, view.simulation.runs);
    for (const ArenaUse& a : uses) {
      REQUIRE(a.begin <= a.end);
      REQUIRE(a.offset + a.bytes <= view.plan.arena_bytes);
      for (const ArenaUse& b : uses) {
        if (&a == &b || !overlap(a.begin, a.end, b.begin, b.end)) continue;
        REQUIRE_FALSE(overlap(static_cast<double>(a.offset), static_cast<double>(a.offset + a.bytes),
                              static_cast<double>(b.offset), static_cast<double>(b.offset + b.bytes)));
      }
    }
  }
}

TEST_CASE("a page needs nothing but itself, whatever a plan is called") {
  PlanView view = random_view(3);
  view.title = "</script><script>alert(1)</script>";
  const std::string page = plan_page(view);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(page.find(kPageData) == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("href=") == std::string::npos);
  CHECK(page.find("@import") == std::string::npos);
}

TEST_CASE("the critical path found in a run's times spans the run without a gap") {
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    INFO("seed ", seed);
    const PlanView view = random_view(seed);
    const std::vector<NodeId> path = critical_path(view.plan, view.simulation.runs);
    double time = 0;
    for (const NodeId node : path) {
      REQUIRE(view.simulation.runs[node].start == doctest::Approx(time).epsilon(1e-9));
      time = view.simulation.runs[node].finish;
    }
    REQUIRE(time == view.simulation.makespan);
  }
}

TEST_CASE("a node that writes a parameter is an update, one that makes gradients is of the backward pass") {
  StepGraph graph;
  const ValueId weight = graph.add_persistent(bytes_desc(8), ValueKind::parameter, 0);
  const ValueId running = graph.add_persistent(bytes_desc(8), ValueKind::state, 1);
  OutputDesc next_version = bytes_output(8);
  next_version.overwrites = 0;
  add(graph, {weight});
  const ValueId gradient =
      graph.add_node(std::make_shared<TestOp>(std::vector{bytes_output(8)}), {weight}, ValueKind::gradient);
  graph.add_node(std::make_shared<TestOp>(std::vector{next_version}), {weight, gradient});
  graph.add_node(std::make_shared<TestOp>(std::vector{next_version}), {running});
  CHECK(phase_of(graph, 0) == Phase::forward);
  CHECK(phase_of(graph, 1) == Phase::backward);
  CHECK(phase_of(graph, 2) == Phase::update);
  CHECK(phase_of(graph, 3) == Phase::forward);
}

}  // namespace braid::scheduler::testing
