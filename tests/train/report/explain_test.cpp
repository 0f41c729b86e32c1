#include "train/report/plan/explain.h"

#include <doctest/doctest.h>

#include <set>

#include "scheduler/block.h"
#include "scheduler/policies/list_scheduler.h"
#include "tests/error_of.h"
#include "tests/train/report/random_view.h"

namespace braid::scheduler::testing {
namespace {

std::string refusal(const PlanView& view, const std::string& block) {
  return braid::testing::error_of<Error>([&] { check_readable(view, block); });
}

}  // namespace

TEST_CASE("the picks of the log are the schedule: who starts when, where, how, of those that were ready") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    INFO("seed ", seed);
    const RandomStep step = random_step(seed);
    const Edges edges = step.graph.edges();
    ScheduleLog log;
    Problem problem = make_problem(step.graph, step.costs, 3, step.capacity);
    problem.log = &log;
    const Schedule schedule = critical_path(problem);
    REQUIRE(log.attempts[log.kept].makespan == schedule.makespan);
    for (const ScheduleLog::Attempt& attempt : log.attempts)
      REQUIRE(attempt.makespan >= schedule.makespan * (1 - 1e-9));
    std::set<NodeId> started;
    for (const ScheduleLog::Pick& pick : log.attempts[log.kept].picks) {
      REQUIRE(std::ranges::find(pick.ready, pick.node) != pick.ready.end());
      const auto priority = [&](NodeId node) { return log.attempts[log.kept].priorities[node]; };
      REQUIRE(std::ranges::is_sorted(pick.ready, std::greater{}, priority));
      for (const NodeId node : pick.ready) {
        for (const NodeId before : edges.predecessors(node)) REQUIRE(started.contains(before));
      }
      if (!pick.started) continue;
      REQUIRE(started.insert(pick.node).second);
      const Placement& placement = schedule.placements[pick.node];
      REQUIRE(placement == Placement{placement.stream, pick.implementation, pick.time, pick.finish});
    }
    if (log.kept > 0) REQUIRE(started.size() == schedule.order.size());
  }
}

TEST_CASE("the plain list schedule follows by hand from bottom levels and equal shares") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    INFO("seed ", seed);
    const RandomStep step = random_step(seed);
    ScheduleLog log;
    Problem problem = make_problem(step.graph, step.costs, 3, step.capacity);
    const Schedule unlogged = plain_list(problem);
    problem.log = &log;
    const Schedule schedule = plain_list(problem);
    REQUIRE(schedule.placements == unlogged.placements);
    const std::vector<double> levels = bottom_levels(problem.edges, problem.costs);
    REQUIRE(log.attempts.size() == 1);
    REQUIRE(log.attempts[0].priorities == levels);
    REQUIRE(log.attempts[0].start_orders.empty());
    for (const ScheduleLog::Pick& pick : log.attempts[0].picks) {
      REQUIRE_FALSE(pick.fixed);
      REQUIRE_FALSE(pick.in_turn);
      if (problem.costs.link(pick.node) != kNoLink) continue;  // as soon as its link is free
      const auto ready = static_cast<int>(pick.ready.size());
      REQUIRE(pick.limit == pick.free_units / std::min(ready, pick.free_streams));
      for (const NodeId node : pick.ready) REQUIRE(levels[node] <= levels[pick.ready.front()]);
      if (pick.started) REQUIRE(schedule.placements[pick.node].finish == pick.finish);
    }
    make_plan(problem, plain_list, "list");  // throws if it is unsafe
  }
}

TEST_CASE(
    "the first decision in which two plans differ comes after equal ones, and a plan does not differ from itself") {
  int differences = 0;
  for (std::uint64_t seed = 0; seed < some_of(100); ++seed) {
    INFO("seed ", seed);
    const PlanView step = random_view(seed);
    const Explanation plain = explain(step, "", "list"), other = explain(step, "", "round_robin");
    REQUIRE(first_difference(plain, plain).node == kNoNode);
    const Difference difference = first_difference(plain, other);
    differences += difference.node == kNoNode ? 0 : 1;
    for (NodeId node = 0; node < step.problem.graph.node_count(); ++node) {
      const Run &first = plain.view.simulation.runs[node], &second = other.view.simulation.runs[node];
      const bool is_view = step.problem.graph.node(node).is_view;
      if (is_view || std::min(first.start, second.start) >= difference.time * (1 - 1e-9)) continue;
      REQUIRE(first.start == doctest::Approx(second.start));
      REQUIRE(plain.view.plan.placements[node].implementation == other.view.plan.placements[node].implementation);
    }
  }
  CHECK(differences > some_of(50));
}

TEST_CASE("the explanation of a node names what it waits for, and whose bytes its result takes") {
  const PlanView step = random_view(11);
  const Explanation explanation = explain(step, "");
  int waits = 0, reused = 0;
  for (const NodeId node : step.problem.graph.launched_nodes()) {
    const std::string text = explain_node(explanation, node);
    CHECK(text.starts_with(message(node, ' ')));
    for (const NodeWait& wait : waits_of(explanation.view.plan)) {
      if (wait.after != node) continue;
      CHECK(text.find(message(wait.before, " before ", node, ": wait, stream ")) != std::string::npos);
      ++waits;
    }
    reused += text.find("last used until") != std::string::npos ? 1 : 0;
  }
  CHECK(waits == explanation.view.plan.commands.waits());
  CHECK(reused > 0);
  CHECK(braid::testing::error_of<Error>([&] {
          explain_node(explanation, step.problem.graph.node_count());
        }).starts_with("[explain] expected a node of random step 11"));
}

TEST_CASE("the decisions of a step that is scheduled within a window are said to be those of another schedule") {
  int lean = 0;
  for (std::uint64_t seed = 0; lean == 0 || seed < some_of(40); ++seed) {
    REQUIRE(seed < 40);
    const RandomStep step = random_step(seed, 300, 200);
    ScheduleLog log;
    Problem problem = make_problem(step.graph, step.costs, 3, step.capacity);
    const Plan plan = make_plan(problem, critical_path, "critical_path");
    problem.log = &log;
    REQUIRE(make_plan(problem, critical_path, "critical_path") == plan);
    REQUIRE(log.attempts[log.kept].makespan == plan.makespan);
    const bool is_lean = log.attempts[log.kept].rule.starts_with("within a window");
    lean += is_lean ? 1 : 0;
    REQUIRE(is_lean == log.stream_picks.empty());
    for (const ScheduleLog::Pick& pick : log.attempts[log.kept].picks) {
      if (pick.started) REQUIRE(plan.placements[pick.node].start == pick.start);
    }
  }
  CHECK(lean > 0);
}

TEST_CASE("a log contains every order to keep and the waits that the plan has, and changes no plan") {
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    INFO("seed ", seed);
    const RandomStep step = random_step(seed);
    const Edges edges = step.graph.edges();
    ScheduleLog log;
    Problem problem = make_problem(step.graph, step.costs, 4, step.capacity);
    const Plan plan = make_plan(problem, critical_path, "critical_path");
    problem.log = &log;
    REQUIRE(make_plan(problem, critical_path, "critical_path") == plan);
    std::vector<NodeWait> kept;
    std::set<NodeWait> told;
    for (const auto& [before, after, order, by] : log.dependences) {
      REQUIRE(told.insert({before, after}).second);
      const bool same_stream = plan.placements[before].stream == plan.placements[after].stream;
      REQUIRE(same_stream == (order == ScheduleLog::Order::stream));
      if (order == ScheduleLog::Order::wait) kept.push_back({before, after});
      if (order == ScheduleLog::Order::later) REQUIRE(plan.placements[by].stream == plan.placements[before].stream);
    }
    std::set<NodeWait> orders;
    for (const auto& [before, after] : plan.resource_edges) orders.insert({before, after});
    for (NodeId node = 0; node < step.graph.node_count(); ++node) {
      for (const NodeId before : edges.predecessors(node)) orders.insert({before, node});
    }
    REQUIRE(told == orders);
    std::vector<NodeWait> waits = waits_of(plan);
    std::ranges::sort(waits);
    std::ranges::sort(kept);
    REQUIRE(kept == waits);
  }
}

TEST_CASE("a block has its nodes' costs and orders, and the rest of the step where they depend on it") {
  int rests = 0;
  for (std::uint64_t seed = 0; seed < some_of(300); ++seed) {
    INFO("seed ", seed);
    const RandomStep step = random_step(seed);
    std::vector<NodeId> nodes;
    for (NodeId node = 0; node < step.graph.node_count(); ++node) {
      if ((node / 5) % 2 == 0) nodes.push_back(node);
    }
    const Block block = extract_block(make_problem(step.graph, step.costs, 3, step.capacity), nodes);
    std::vector<NodeId> of(step.graph.node_count(), kNoNode);
    for (NodeId node = 0; node < block.problem.graph.node_count(); ++node) {
      const NodeId origin = block.origin[node];
      if (origin == kNoNode) {
        ++rests;
        REQUIRE(block.problem.graph.node(node).op->name() == kRestOfStep);
        continue;
      }
      of[origin] = node;
      REQUIRE(block.problem.graph.node(node).op == step.graph.node(origin).op);
      REQUIRE(std::ranges::equal(block.problem.costs.of(node), step.costs.of(origin)));
    }
    for (const NodeId node : nodes) {
      REQUIRE(of[node] != kNoNode);
      const auto inputs = step.graph.inputs(node);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const NodeId producer = step.graph.value(inputs[i]).producer;
        if (producer == kNoNode || of[producer] == kNoNode) continue;
        REQUIRE(block.problem.graph.value(block.problem.graph.inputs(of[node])[i]).producer == of[producer]);
      }
    }
    make_plan(block.problem, critical_path, "critical_path");  // throws if it is unsafe
  }
  CHECK(rests > some_of(100));
}

TEST_CASE("an explanation names every node of the block and no other") {
  const PlanView view = random_view(11);
  REQUIRE(view.problem.graph.node_count() > 20);
  const Explanation explanation = explain(view, "block1");
  int nodes = 0;
  for (const std::string& layer : explanation.view.layers) nodes += layer.starts_with("layer") ? 1 : 0;
  CHECK(nodes == 10);
  const std::string text = to_text(explanation);
  for (const char* heading : {"1. The tape", "2. The graph", "3. Costs and bottom levels", "4. List scheduling",
                              "5. Waits", "6. Memory", "7. Verification and simulation"}) {
    CHECK(text.find(heading) != std::string::npos);
  }
  CHECK(text.find("no fault found") != std::string::npos);
  CHECK(text.find("layer9") != std::string::npos);
}

TEST_CASE("an unknown or too large block is refused with names to use instead") {
  PlanView view = random_view(11);
  CHECK(refusal(view, "block11").starts_with("[explain] no layer is 'block11' or within it (did you mean 'block1'?)"));
  CHECK(refusal(view, "block").find("there are block0, block1") != std::string::npos);

  const ValueId input = view.problem.graph.add_input(bytes_desc(1));
  while (view.problem.graph.node_count() < 200) {
    add(view.problem.graph, {input});
    view.layers.push_back("large.inner");
  }
  CHECK(refusal(view, "large").find("too many to explain one by one, at most 120. Within it there are large.inner") !=
        std::string::npos);
  CHECK(refusal(view, "").starts_with("[explain] the step has 200 nodes: too many"));
}

}  // namespace braid::scheduler::testing
