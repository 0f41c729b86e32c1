#include "scheduler/lowering/implementations.h"

#include <doctest/doctest.h>

#include <limits>

#include "scheduler/check/simulator.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

constexpr double kRounding = 1 + 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// A random step in which most nodes have several implementations: the wider and the more workspace, the faster.
struct Case {
  Case(std::uint64_t seed, int max_nodes, int streams, bool oversubscribes, int most_implementations = 3) {
    StepGraph graph = random_step(seed, max_nodes).graph;
    Costs costs;
    Generator random(seed + 1000);
    const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<std::uint32_t>(bound))); };
    for (const Node& node : graph.nodes()) {
      std::vector<Cost> implementations;
      int width = 1 + below(4);
      std::size_t workspace = 0;
      double duration = 5 + below(20);
      for (int more = node.is_view ? 1 : 1 + below(most_implementations); more > 0; --more) {
        implementations.push_back(
            {.width = width, .duration = node.is_view ? 0 : duration, .workspace_bytes = workspace});
        width = std::min(8, width + below(3));
        workspace += static_cast<std::size_t>(below(1500));
        duration *= 0.5 + 0.5 * random.uniform();
      }
      costs.add(implementations);
    }
    problem = make_problem(std::move(graph), std::move(costs), streams, 8, oversubscribes);
    plan = plan_commands(problem, critical_path(problem), "critical_path");
    take_simulated_times(problem, plan);
  }
  Case(const Case&) = delete;

  std::int64_t workspaces(const Plan& of) const {
    Plan placed = of;
    plan_memory(problem.graph, problem.costs, placed);
    std::int64_t sum = 0;
    for (const ArenaSlice& slice : placed.workspaces) sum += (slice.bytes + 255) / 256 * 256;
    return sum;
  }

  Problem problem;
  Plan plan;
};

/// The smallest simulated makespan over all combinations of implementations within the limit.
double brute_force(const Case& step, std::int64_t limit, Plan& plan, NodeId node = 0) {
  if (node == step.problem.graph.node_count()) {
    return step.workspaces(plan) <= limit ? simulate(step.problem, plan).makespan : kNever;
  }
  int& implementation = plan.placements[node].implementation;
  const int own = implementation;
  double best = kNever;
  for (int i = 0; i < static_cast<int>(step.problem.costs.of(node).size()); ++i) {
    const bool room =
        step.problem.oversubscribes || step.problem.costs.of(node, i).width <= step.problem.costs.of(node, own).width;
    if (!room) continue;
    implementation = i;
    best = std::min(best, brute_force(step, limit, plan, node + 1));
  }
  implementation = own;
  return best;
}

}  // namespace

TEST_CASE("implementations of a few nodes are chosen as well as by trying all") {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < some_of(150); ++seed) {
    const Case step(seed, 8, 1 + static_cast<int>(seed % 3), seed % 2 == 0);
    const std::int64_t least = least_workspace_bytes(step.problem, step.plan);
    for (const std::int64_t limit : {least - 1, least, least + 512, least + 1536, least + 100000}) {
      INFO("seed ", seed, ", limit ", limit);
      Plan tried = step.plan;
      const double best = brute_force(step, limit, tried);
      Plan chosen = step.plan;
      REQUIRE(fit_implementations(step.problem, chosen, limit) == (best < kNever));
      if (best == kNever) {
        REQUIRE(chosen == step.plan);
        continue;
      }
      REQUIRE(chosen.makespan <= best * kRounding);
      REQUIRE(chosen.makespan >= best / kRounding);
      REQUIRE(chosen.makespan == simulate(step.problem, chosen).makespan);
      REQUIRE(step.workspaces(chosen) <= limit);
      REQUIRE(implementations_bound(step.problem, step.plan) <= best * kRounding);
      ++compared;
    }
  }
  CHECK(compared > some_of(500));
}

TEST_CASE("implementations of many nodes keep to the limit, and a larger limit never makes them slower") {
  for (std::uint64_t seed = 0; seed < some_of(60); ++seed) {
    const Case step(seed, 150, 1 + static_cast<int>(seed % 4), seed % 2 == 0);
    const std::int64_t least = least_workspace_bytes(step.problem, step.plan);
    const std::int64_t own = step.workspaces(step.plan);
    Plan none = step.plan;
    if (least > 0) REQUIRE(!fit_implementations(step.problem, none, least - 1));
    double makespan = kNever;
    for (std::int64_t limit = least; limit < own + 2000; limit += 700) {
      Plan chosen = step.plan;
      INFO("seed ", seed, ", limit ", limit, " from ", least, " to ", own);
      REQUIRE(fit_implementations(step.problem, chosen, limit));
      REQUIRE(step.workspaces(chosen) <= limit);
      REQUIRE(chosen.makespan <= makespan * kRounding);
      REQUIRE(chosen.makespan * kRounding >= implementations_bound(step.problem, step.plan));
      makespan = chosen.makespan;
      plan_memory(step.problem.graph, step.problem.costs, chosen);
      REQUIRE(verify_plan(step.problem.graph, step.problem.costs, chosen).empty());
    }
    REQUIRE(makespan <= step.plan.makespan * kRounding);
  }
}

}  // namespace braid::scheduler::testing
