#include "scheduler/check/simulator.h"

#include <doctest/doctest.h>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;
using Nodes = std::vector<NodeId>;

/// The commands for node i on stream streams[i], in recording order.
Plan commands_on_streams(const StepGraph& graph, const std::vector<int>& streams) {
  return commands_of(graph, on_streams(streams), 1 + std::ranges::max(streams));
}

Simulation simulate_on(const StepGraph& graph, const Costs& costs, const Plan& plan, int capacity,
                       const Interference* interference = nullptr) {
  Problem problem = make_problem(graph, costs, static_cast<int>(plan.commands.streams.size()), capacity);
  if (interference != nullptr) problem.interference = *interference;
  return simulate(problem, plan);
}

bool ran(const Simulation& simulation, NodeId node, double start, double finish) {
  const Simulation::Run& run = simulation.runs[static_cast<std::size_t>(node)];
  return run.start == doctest::Approx(start) && run.finish == doctest::Approx(finish);
}

/// What a step costs if everything takes `factor` times as long.
Costs scaled(const Costs& costs, double factor) {
  Costs result = costs;
  for (NodeId node = 0; node < costs.node_count(); ++node) {
    for (int i = 0; i < static_cast<int>(costs.of(node).size()); ++i)
      result.set_duration(node, i, factor * costs.of(node, i).duration);
  }
  return result;
}

}  // namespace

TEST_CASE("without a CUDA graph, a node starts when the host has launched it and all that should start before it") {
  StepGraph graph;
  const ValueId first = add(graph, {});
  add(graph, {});
  add(graph, {first});
  const Costs costs = choices_of({{.duration = 2}, {.duration = 3}, {.duration = 4}});
  Plan plan = commands_on_streams(graph, {0, 1, 0});
  Problem problem = make_problem(graph, costs, 2, 4);
  take_simulated_times(problem, plan);
  problem.host_microseconds = 1;
  Simulation simulation = simulate(problem, plan);
  CHECK(ran(simulation, 0, 1, 3));
  CHECK(ran(simulation, 1, 2, 5));
  CHECK(ran(simulation, 2, 3, 7));  // its launch was hidden behind node 0
  problem.host_microseconds = 10;
  simulation = simulate(problem, plan);
  CHECK(ran(simulation, 2, 30, 34));
  CHECK(simulation.makespan == doctest::Approx(34));
  CHECK(simulation.busy[0] == doctest::Approx(6));
}

TEST_CASE("an event serves every stream that waits for it, and completes with the commands before it") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  for (int i = 0; i < 3; ++i) add(graph, {a});
  const Plan plan = commands_on_streams(graph, {0, 0, 1, 2});
  REQUIRE(plan.commands.events == 1);
  const Costs costs = choices_of({{.duration = 3}, {.duration = 9}, {.duration = 1}, {.duration = 2}});
  const Simulation simulation = simulate_on(graph, costs, plan, 4);
  CHECK(ran(simulation, 1, 3, 12));
  CHECK(ran(simulation, 2, 3, 4));
  CHECK(ran(simulation, 3, 3, 5));
}

TEST_CASE("an event recorded after a wait includes the awaited work") {
  const StepGraph graph = independent(2);
  Plan plan;
  plan.placements = {{.stream = 0}, {.stream = 2}};
  plan.commands.events = 2;
  plan.commands.streams = {{{Kind::launch, 0}, {Kind::record, 0}},
                           {{Kind::wait, 0}, {Kind::record, 1}},
                           {{Kind::wait, 1}, {Kind::launch, 1}}};
  const Simulation simulation = simulate_on(graph, choices_of({{.duration = 4}, {.duration = 2}}), plan, 4);
  CHECK(ran(simulation, 1, 4, 6));
  CHECK(simulation.critical_path == Nodes{0, 1});
}

TEST_CASE("a record before everything else lets others start at once") {
  const StepGraph graph = independent(2);
  Plan plan;
  plan.placements = {{.stream = 0}, {.stream = 1}};
  plan.commands.events = 1;
  plan.commands.streams = {{{Kind::record, 0}, {Kind::launch, 0}}, {{Kind::wait, 0}, {Kind::launch, 1}}};
  const Simulation simulation = simulate_on(graph, choices_of({{.duration = 4}, {.duration = 5}}), plan, 4);
  CHECK(simulation.makespan == 5);
  CHECK(simulation.critical_path == Nodes{1});
}

TEST_CASE("nodes that ask for more than the capacity slow each other in proportion") {
  const StepGraph graph = independent(2);
  const Plan plan = commands_on_streams(graph, {0, 1});
  // Together they ask for 6 of 4: two thirds of the speed until the first finishes.
  const Costs costs = choices_of({{.width = 2, .duration = 4}, {.width = 4, .duration = 8}});
  const Simulation simulation = simulate_on(graph, costs, plan, 4);
  CHECK(ran(simulation, 0, 0, 6));
  CHECK(ran(simulation, 1, 0, 10));
  CHECK(simulate_on(graph, costs, plan, 6).makespan == 8);
}

TEST_CASE("a pair's interference applies while both run, per direction, in addition to the sharing of capacity") {
  const StepGraph graph = independent(2);
  const Plan plan = commands_on_streams(graph, {0, 1});
  Interference interference;
  for (const NodeId node : {0, 1}) interference.set_kind(node, 0, node);
  interference.set_factor(0, 1, 1.5);
  interference.set_factor(1, 0, 2);
  const Costs costs = choices_of({{.duration = 4}, {.duration = 8}});
  Simulation simulation = simulate_on(graph, costs, plan, 2, &interference);
  CHECK(ran(simulation, 0, 0, 6));
  CHECK(ran(simulation, 1, 0, 6 + 5));
  simulation = simulate_on(graph, costs, plan, 1, &interference);
  CHECK(ran(simulation, 0, 0, 12));
  CHECK(ran(simulation, 1, 0, 12 + 5));

  // A pair that shares better than in proportion does so, but is never faster than alone.
  interference.set_factor(0, 1, 0.75);
  interference.set_factor(1, 0, 0.1);
  simulation = simulate_on(graph, costs, plan, 1, &interference);
  CHECK(ran(simulation, 0, 0, 6));
  CHECK(ran(simulation, 1, 0, 8));
}

TEST_CASE("interference of several neighbours multiplies, and unknown pairs have none") {
  const StepGraph graph = independent(4);
  Interference interference;
  for (const NodeId node : {0, 1, 2}) interference.set_kind(node, 0, node);
  interference.set_factor(0, 1, 2);
  interference.set_factor(0, 2, 3);
  CHECK(interference.factor(0, 0, 1, 0) == 2);
  CHECK(interference.factor(1, 0, 0, 0) == 1);
  CHECK(interference.factor(0, 0, 3, 0) == 1);
  CHECK(interference.factor(0, 1, 1, 0) == 1);
  const Costs costs = choices_of({{.duration = 2}, {.duration = 6}, {.duration = 6}, {.duration = 6}});
  const Simulation simulation = simulate_on(graph, costs, commands_on_streams(graph, {0, 1, 2, 3}), 4, &interference);
  CHECK(ran(simulation, 0, 0, 6 + 1));
  CHECK(ran(simulation, 1, 0, 6));
}

TEST_CASE("nodes of one kind hinder each other alike") {
  const StepGraph graph = independent(4);
  Interference interference;
  for (const NodeId node : {0, 1, 2, 3}) interference.set_kind(node, 0, 0);
  interference.set_factor(0, 0, 2);
  const Costs costs = choices_of(std::vector<Cost>(4, {.duration = 3}));
  CHECK(simulate_on(graph, costs, commands_on_streams(graph, {0, 1, 0, 1}), 2, &interference).makespan ==
        doctest::Approx(12));
}

TEST_CASE("a stream that has to wait loses time, one whose event is there already does not") {
  const StepGraph graph = diamond();
  const Plan plan = commands_on_streams(graph, {0, 0, 1, 0});
  const auto simulation = [&](double left, double right) {
    const Costs costs = choices_of({{.duration = 2}, {.duration = left}, {.duration = right}, {.duration = 1}});
    Problem problem = make_problem(graph, costs, 2, 2);
    problem.wait_microseconds = 0.5;
    return simulate(problem, plan);
  };
  const Simulation short_branch = simulation(6, 3), long_branch = simulation(3, 6);
  CHECK(ran(short_branch, 2, 2.5, 5.5));
  CHECK(ran(short_branch, 3, 8, 9));
  CHECK(short_branch.critical_path == Nodes{0, 1, 3});
  CHECK(ran(long_branch, 2, 2.5, 8.5));
  CHECK(ran(long_branch, 3, 9, 10));
  CHECK(long_branch.critical_path == Nodes{0, 2, 3});
  CHECK(long_branch.busy == std::vector<double>{6, 6});
}

TEST_CASE("nodes of no duration take none, but keep the order") {
  StepGraph graph;
  const ValueId a = add(graph, {}), b = add(graph, {a});
  add(graph, {b});
  const Costs costs = choices_of({{.duration = 0}, {.duration = 0}, {.duration = 3}});
  const Simulation simulation = simulate_on(graph, costs, commands_on_streams(graph, {0, 1, 0}), 1);
  CHECK(simulation.makespan == 3);
  CHECK(ran(simulation, 1, 0, 0));
  CHECK(ran(simulation, 2, 0, 3));
  CHECK(simulation.critical_path.back() == 2);
  CHECK(simulate_on(graph, unit_costs(graph, 0), commands_on_streams(graph, {0, 1, 0}), 1).makespan == 0);
}

TEST_CASE("streams that wait for each other are a deadlock") {
  const StepGraph graph = independent(2);
  Plan plan;
  plan.placements = {{.stream = 0}, {.stream = 1}};
  plan.commands.events = 2;
  plan.commands.streams = {{{Kind::wait, 1}, {Kind::launch, 0}, {Kind::record, 0}},
                           {{Kind::wait, 0}, {Kind::launch, 1}, {Kind::record, 1}}};
  CHECK_THROWS_WITH_AS(simulate_on(graph, unit_costs(graph), plan, 2), "[plan] stream 0 waits forever at command 0",
                       PlanError);
}

TEST_CASE("nodes overlap for as long as both run, pairs with the longest overlap first") {
  StepGraph graph;
  const ValueId a = add(graph, {});
  add(graph, {});
  add(graph, {a});
  const Costs costs = choices_of({{.duration = 2}, {.duration = 5}, {.duration = 9}});
  const Plan plan = commands_on_streams(graph, {0, 1, 0});
  const Simulation simulation = simulate_on(graph, costs, plan, 2);
  CHECK(overlaps(simulation) == std::vector<Overlap>{{1, 2, 3}, {0, 1, 2}});
  CHECK(overlaps(simulate_on(graph, costs, commands_on_streams(graph, {0, 0, 0}), 2)).empty());
}

TEST_CASE("another unit of time changes nothing but the unit") {
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    CAPTURE(seed);
    const Problem problem = random_problem(seed);
    const Plan plan = plan_commands(problem, critical_path(problem), "critical_path");
    const Simulation simulation = simulate(problem, plan);
    for (const double factor : {1e-9, 1e9}) {
      Problem again = problem;
      again.costs = scaled(problem.costs, factor);
      const Simulation simulated = simulate(again, plan);
      CHECK(simulated.makespan == doctest::Approx(factor * simulation.makespan).epsilon(1e-9));
      for (NodeId id = 0; id < problem.graph.node_count(); ++id) {
        const auto [start, finish] = simulation.runs[id];
        CHECK(ran(simulated, id, factor * start, factor * finish));
      }
    }
  }
}

}  // namespace braid::scheduler::testing
