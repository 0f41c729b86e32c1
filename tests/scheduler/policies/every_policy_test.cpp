#include <doctest/doctest.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

/// A number from the environment, or another where it is not set.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  std::uint64_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  BRAID_CHECK(error == std::errc() && stop == end, Error, "[test] expected a number in ", name, ", got '", text, "'");
  return number;
}

/// Policies that are for small graphs only.
bool takes(std::string_view policy, const StepGraph& graph) {
  return policy != "exhaustive" || std::ranges::count(graph.nodes(), false, &Node::is_view) <= kMostExhaustiveNodes;
}

/// Calls `check(name, policy)` with every policy that takes the graph.
template <class Check>
void for_every_policy(const StepGraph& graph, const Check& check) {
  for (const std::string& name : policy_names()) {
    CAPTURE(name);
    if (takes(name, graph)) check(name, find_policy(name));
  }
}

}  // namespace

// BRAID_RANDOM_DAGS=1000000 BRAID_RANDOM_SEED=5000 for a million others: scripts/nightly.sh
TEST_CASE("random steps are planned without faults by every policy on any number of streams") {
  const std::uint64_t graphs = from_environment("BRAID_RANDOM_DAGS", some_of(2500));
  const std::uint64_t first = from_environment("BRAID_RANDOM_SEED", 0);
  std::uint64_t plans = 0;
  for (std::uint64_t seed = first; seed < first + graphs; ++seed) {
    const RandomStep step = random_step(seed);
    constexpr int kStreams[] = {1, 2, 3, 4, 8};
    for (const int streams : {kStreams[seed % 5], kStreams[(seed + 1 + seed / 5 % 4) % 5]}) {
      const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
      for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
        if (name == "auto" && seed % 10 != 0) return;  // it is one of the others
        INFO("seed ", seed, ", ", streams, " streams");
        const Plan plan = make_plan(problem, policy, name);
        REQUIRE(verify_plan(step.graph, step.costs, plan).empty());
        REQUIRE(plan.makespan >= plan.bound.bound * (1 - 1e-12));
        REQUIRE(plan.arena_bytes <= plan.naive_bytes);
        ++plans;
      });
    }
  }
  std::cout << "random plans: " << plans << " plans of " << graphs << " graphs from seed " << first << " on verified";
  if (graphs < 2500) std::cout << " (a release build verifies 2500 graphs)";
  std::cout << '\n';
}

TEST_CASE("every policy's schedules are complete, topological, within capacity and no better than the bound") {
  for (std::uint64_t seed = 0; seed < some_of(400); ++seed) {
    const RandomStep step = random_step(seed);
    const Edges edges = step.graph.edges();
    const auto launched = std::ranges::count(step.graph.nodes(), false, &Node::is_view);
    for (const int streams : {1, 2, 3, 8, 64}) {
      const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
      for_every_policy(step.graph, [&](const std::string&, Policy policy) {
        const Schedule schedule = policy(problem);
        std::vector<Interval> intervals;
        std::vector<double> stream_free(problem.all_streams(), 0);
        std::vector<bool> started(step.graph.node_count());
        double makespan = 0;
        for (const NodeId node : schedule.order) {
          const Placement& place = schedule.placements[node];
          REQUIRE(!started[node]);
          for (const NodeId before : edges.predecessors(node)) {
            REQUIRE(started[before]);
            REQUIRE(schedule.placements[before].finish <= place.start);
          }
          REQUIRE(stream_free[place.stream] <= place.start);
          const Cost& cost = step.costs.of(node, place.implementation);
          REQUIRE(place.finish == doctest::Approx(place.start + cost.duration));
          stream_free[place.stream] = place.finish;
          started[node] = true;
          makespan = std::max(makespan, place.finish);
          intervals.push_back({place.start, place.finish, cost.width});
        }
        REQUIRE(std::ssize(intervals) == launched);
        for (const auto& [before, after] : schedule.resource_edges) {
          REQUIRE(schedule.placements[before].stream != schedule.placements[after].stream);
          REQUIRE(!std::ranges::binary_search(edges.predecessors(after), before));
        }
        REQUIRE(peak_width(intervals) <= step.capacity);
        REQUIRE(schedule.makespan == makespan);
        REQUIRE(makespan >= lower_bound(problem).bound * (1 - 1e-12));
      });
    }
  }
}

TEST_CASE("with every policy, concurrent nodes stay within capacity for any real durations") {
  for (std::uint64_t seed = 0; seed < some_of(600); ++seed) {
    const RandomStep step = random_step(seed);
    Generator random(seed, 1);
    for (const int streams : {2, 4, 8}) {
      for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
        const Plan plan = make_plan(step.graph, step.costs, policy, name, streams, step.capacity);
        for (int trial = 0; trial < 5; ++trial) {
          std::vector<double> durations(step.graph.node_count());
          for (double& duration : durations) duration = random.below(4) == 0 ? 0 : random.uniform() * 10;
          REQUIRE(peak_width(run(plan, step.costs, durations)) <= step.capacity);
        }
      });
    }
  }
}

TEST_CASE("every policy's plan, run with the predicted durations, takes at most the predicted time") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    const RandomStep step = random_step(seed);
    for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
      const Plan plan = make_plan(step.graph, step.costs, policy, name, 4, step.capacity);
      std::vector<double> durations(step.graph.node_count());
      for (NodeId id = 0; id < step.graph.node_count(); ++id) {
        durations[id] = step.costs.of(id, plan.placements[id].implementation).duration;
      }
      double makespan = 0;
      for (const Interval& interval : run(plan, step.costs, durations)) makespan = std::max(makespan, interval.finish);
      REQUIRE(makespan <= plan.makespan * (1 + 1e-12));
    });
  }
}

TEST_CASE("every policy gives the same plan for the same step") {
  for (std::uint64_t seed = 0; seed < some_of(100); ++seed) {
    const RandomStep step = random_step(seed), again = random_step(seed);
    for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
      REQUIRE(make_plan(step.graph, step.costs, policy, name, 3, step.capacity) ==
              make_plan(again.graph, again.costs, policy, name, 3, again.capacity));
    });
  }
}

TEST_CASE("every policy plans an empty step") {
  for_every_policy(StepGraph{}, [](const std::string& name, Policy policy) {
    const Plan plan = make_plan(StepGraph{}, Costs{}, policy, name, 4, 2);
    CHECK(plan.makespan == 0);
    CHECK(plan.commands.streams == std::vector<std::vector<Command>>(4));
  });
}

TEST_CASE("every policy plans a step of nodes that take no time, on one stream and on 64") {
  for (std::uint64_t seed = 0; seed < some_of(50); ++seed) {
    const RandomStep step = random_step(seed);
    Costs costs;
    for (const Node& node : step.graph.nodes()) {
      const Cost cost{.width = node.is_view ? 1 : step.capacity};
      costs.add({&cost, 1});
    }
    for (const int streams : {1, 64}) {
      for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
        REQUIRE(make_plan(step.graph, costs, policy, name, streams, step.capacity).makespan == 0);
      });
    }
  }
}

TEST_CASE("no policy orders nodes for the sake of capacity where the hardware shares its units") {
  for (std::uint64_t seed = 0; seed < some_of(50); ++seed) {
    const RandomStep step = random_step(seed);
    for_every_policy(step.graph, [&](const std::string& name, Policy policy) {
      REQUIRE(make_plan(step.graph, step.costs, policy, name, 4, step.capacity, true).resource_edges.empty());
    });
  }
}

}  // namespace braid::scheduler::testing
