#include "scheduler/memory/memory_limit.h"

#include <doctest/doctest.h>

#include "scheduler/block.h"
#include "scheduler/memory/lean_schedule.h"
#include "scheduler/memory/recompute.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

constexpr double kLimitRounding = 1 + 1e-9;

/// A random step and its problem.
class LimitedCase {
 public:
  LimitedCase(std::uint64_t seed, int streams, int max_nodes = 60)
      : step(random_step(seed, max_nodes)), shared(seed % 2 == 1), streams_(streams) {}
  Problem problem() const { return make_problem(step.graph, step.costs, streams_, step.capacity, shared); }
  LimitedPlan within(std::int64_t limit) const { return plan_within(problem(), critical_path, "critical_path", limit); }

  const RandomStep step;
  const bool shared;  // whether units are shared

 private:
  const int streams_;
};

/// Two long chains of nodes that each make a large value, which their last nodes read.
struct TwoChains {
  TwoChains() {
    std::vector<ValueId> ends;
    for (int chain = 0; chain < 2; ++chain) {
      std::vector<ValueId> values{add(graph, {}, 10000)};
      for (int i = 0; i < 5; ++i) values.push_back(add(graph, {values.back()}, 10000));
      ends.push_back(add(graph, values, 256));
    }
    add(graph, ends);
    costs = unit_costs(graph);
  }
  StepGraph graph;
  Costs costs;
};

}  // namespace

TEST_CASE("a limit of nothing or less is refused") {
  const LimitedCase small(0, 2, 8);
  CHECK_THROWS_WITH_AS(small.within(0), "[memory] expected a limit of at least 1 byte, got 0", PlanError);
  CHECK_THROWS_WITH_AS(small.within(-5), "[memory] expected a limit of at least 1 byte, got -5", PlanError);
}

TEST_CASE("one chain after the other needs half the memory of both at once") {
  const TwoChains chains;
  const Problem problem = make_problem(chains.graph, chains.costs, 2, 2);
  const LimitedPlan ample = plan_within(problem, critical_path, "critical_path", 1 << 20);
  CHECK(ample.plan.makespan == 8);
  CHECK(ample.traded.empty());
  const LimitedPlan tight = plan_within(problem, critical_path, "critical_path", 7 * 10240);
  CHECK(tight.fits);
  CHECK(tight.plan.arena_bytes <= 7 * 10240);
  CHECK(tight.plan.makespan > ample.plan.makespan);
  CHECK(!tight.traded.empty());
  const LimitedPlan impossible = plan_within(problem, critical_path, "critical_path", 6 * 10240);
  CHECK(!impossible.fits);
  CHECK(impossible.plan.arena_bytes > 6 * 10240);
  CHECK(impossible.plan.arena_bytes <= 7 * 10240);
}

TEST_CASE("a plan that fits is safe and within its limit, and the serial plan's memory is always enough") {
  constexpr int kSteps = std::max(6, some_of(60));
  int fitted = 0, missed = 0;
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const LimitedCase random(seed, 2 + static_cast<int>(seed % 3) * 3);
    const std::int64_t alone = make_plan(random.problem(), serial, "serial").arena_bytes;
    for (const double share : {2.0, 1.0, 0.8, 0.5}) {
      const auto limit = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(alone)));
      INFO("seed ", seed, ", limit ", limit, ", serial ", alone);
      const LimitedPlan limited = random.within(limit);
      REQUIRE(limited.fits == (limited.plan.arena_bytes <= limit));
      if (share >= 1) REQUIRE(limited.fits);
      REQUIRE(SafetyOracle(random.step.graph, random.step.costs, limited.plan).safe());
      REQUIRE(limited.plan.live_bytes <= limited.plan.arena_bytes);
      ++(limited.fits ? fitted : missed);
    }
  }
  CHECK(fitted > 2 * kSteps);
  CHECK(missed > kSteps / 3);
}

TEST_CASE("a larger limit never gives a larger makespan") {
  constexpr int kSteps = std::max(2, some_of(30));
  int faster = 0;
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const LimitedCase random(seed, 4);
    const std::int64_t alone = make_plan(random.problem(), serial, "serial").arena_bytes;
    double makespan = std::numeric_limits<double>::infinity();
    bool fitted = false;
    for (int percent = 60; percent <= 180; percent += 20) {
      const LimitedPlan limited = random.within(std::max<std::int64_t>(1, alone * percent / 100));
      INFO("seed ", seed, ", ", percent, " % of serial");
      REQUIRE((limited.fits || !fitted));
      if (!limited.fits) continue;
      REQUIRE(limited.plan.makespan <= makespan * kLimitRounding);
      faster += fitted && limited.plan.makespan * kLimitRounding < makespan ? 1 : 0;
      fitted = true;
      makespan = limited.plan.makespan;
    }
  }
  CHECK(faster > kSteps);  // limits do matter here
}

TEST_CASE("in the serial order updates come right after their gradients") {
  StepGraph graph;
  std::vector<ValueId> weights, gradients;
  for (int slot = 0; slot < 4; ++slot)
    weights.push_back(graph.add_persistent(bytes_desc(1000), ValueKind::parameter, slot));
  for (const ValueId weight : weights) gradients.push_back(add(graph, {weight}, 1000));
  for (int slot = 0; slot < 4; ++slot) add_update(graph, {weights[slot], gradients[slot]}, 1000);
  const Costs costs = unit_costs(graph);
  CHECK(make_plan(graph, costs, serial, "serial", 1, 1).arena_bytes == 1024);
}

TEST_CASE("a step recorded in another order is the same step") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    const LimitedCase random(seed, 3);
    const ReorderedStep lean(random.problem(), serial(random.problem()).order);
    const Problem problem = lean.problem(3);
    INFO("seed ", seed);
    REQUIRE(problem.graph.node_count() == random.step.graph.node_count());
    REQUIRE(problem.edges.predecessor.size() == random.problem().edges.predecessor.size());
    const Schedule there = critical_path(problem);
    Plan plan = plan_commands(problem, there, "critical_path");
    plan_memory(problem.graph, problem.costs, plan);
    Plan here = plan_commands(random.problem(), lean.restore(there), "critical_path");
    plan_memory(random.step.graph, random.step.costs, here);
    REQUIRE(here.commands.waits() == plan.commands.waits());
    REQUIRE(here.live_bytes == plan.live_bytes);
    REQUIRE(SafetyOracle(random.step.graph, random.step.costs, here).safe());
  }
}

TEST_CASE("a step recorded in another order, one with repeated nodes and a block lose no property of a value") {
  StepGraph graph;
  const ValueId x = graph.add_input(bytes_desc(256), Layout::split);
  const ValueId w = graph.add_persistent(bytes_desc(256), ValueKind::parameter, 0, {Layout::pieces});
  const ValueId y = add(graph, {x, w}), z = add(graph, {y});
  add(graph, {});
  graph.recompute(y);
  graph.keep(z);
  graph.run_after(2, 0);
  const Problem problem = make_problem(graph, unit_costs(graph), 2, 2);
  const std::vector<NodeId> all{0, 1, 2};
  for (const StepGraph& same : {ReorderedStep(problem, all).problem(2).graph, recompute(graph, {}).graph,
                                extract_block(problem, all).problem.graph}) {
    CHECK(same.covers(graph));
    CHECK(graph.covers(same));
  }
}

TEST_CASE("a step recorded in another order keeps what its problem asks for beyond the graph") {
  const StepGraph graph = independent(3);
  const std::vector<std::vector<NodeId>> predecessors{{}, {0}, {1}};
  const Edges chain = Edges::from_predecessors(predecessors);
  const Costs costs = unit_costs(graph);
  const Problem problem = with_edges(make_problem(graph, costs, 3, 3), chain);
  const ReorderedStep again(problem, std::vector<NodeId>{0, 1, 2});
  CHECK(critical_path(again.problem(3)).makespan == 3);
}

TEST_CASE("the cost of a wait counts within a window too") {
  const StepGraph graph = independent(3);
  const Costs costs = unit_costs(graph);
  Problem problem = make_problem(graph, costs, 2, 2);
  problem.wait_microseconds = 7;
  const Policy cost_of_a_wait = [](const Problem& p) {
    Schedule schedule = serial(p);
    schedule.makespan = p.wait_microseconds;
    return schedule;
  };
  CHECK(lean_schedule(problem, cost_of_a_wait, 2).makespan == 7);
}

TEST_CASE("a lean schedule runs no further ahead than its window, for less memory") {
  StepGraph graph;  // 40 branches: each makes a large value, from which a chain makes a small one
  std::vector<ValueId> ends;
  for (int branch = 0; branch < 40; ++branch) {
    const ValueId large = add(graph, {}, 100000);
    ends.push_back(add(graph, {add(graph, {large}), large}));
  }
  add(graph, ends);
  const Costs costs = unit_costs(graph);
  const Problem problem = make_problem(graph, costs, 4, 4);
  const Plan free = make_plan(problem, critical_path, "critical_path");
  const Plan lean = make_plan(
      problem, [](const Problem& p) { return lean_schedule(p, critical_path, 12); }, "critical_path");
  CHECK(free.makespan == 31);
  CHECK(lean.makespan == 31);
  CHECK(free.live_bytes > 4 * lean.live_bytes);
}

TEST_CASE("within a window, a node starts only after all nodes a window ahead have finished") {
  for (std::uint64_t seed = 0; seed < some_of(200); ++seed) {
    const LimitedCase random(seed, 3);
    const Schedule order = serial(random.problem());
    const ReorderedStep lean(random.problem(), order.order);
    for (const int window : {1, 2, 5}) {
      const Problem problem = lean.problem(3);
      Schedule schedule = schedule_within_window(problem, critical_path, window);
      add_window_edges(problem, window, schedule);
      const Plan plan = plan_commands(random.problem(), lean.restore(schedule), "window");
      bool deadlock = false;
      const Relation before = ordered_nodes(random.step.graph, plan, deadlock);
      REQUIRE(!deadlock);
      for (std::size_t i = 0; i < order.order.size(); ++i) {
        for (std::size_t j = i + static_cast<std::size_t>(window); j < order.order.size(); ++j) {
          INFO("seed ", seed, ", window ", window, ", places ", i, " and ", j);
          REQUIRE(before[order.order[i]][order.order[j]]);
        }
      }
    }
  }
  const LimitedCase random(0, 2);
  CHECK_THROWS_WITH_AS(schedule_within_window(random.problem(), critical_path, 0),
                       "[window] expected a window of at least 1 node, got 0", PlanError);
}

}  // namespace braid::scheduler::testing
