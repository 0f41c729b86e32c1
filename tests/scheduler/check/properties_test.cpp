// Properties of every plan of every step, by rapidcheck: a step for which it does not is shrunk to a minimal one and
// printed. RC_PARAMS in the environment changes seed and number of tests, as RC_PARAMS="seed=7 max_success=10000".

#include <doctest/doctest.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <cstdlib>
#include <sstream>

#include "scheduler/check/simulator.h"
#include "tests/faults.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/step_generator.h"
#include "tests/scheduler/step_protocols.h"

namespace braid::scheduler::testing {
namespace {

using Kind = Command::Kind;

constexpr double kSumRounding = 1e-6;  // rounding of sums of some hundred durations

/// rapidcheck's report of a property that does not hold: the smallest step, and why; empty if it holds.
template <class Testable>
std::string failure_of(Testable property) {
  rc::detail::TestParams params;
  params.seed = 1;  // the same every time, unless RC_PARAMS sets another
  params.maxSuccess = 300;
  if (std::getenv("RC_PARAMS") != nullptr) params = rc::detail::configuration().testParams;
  rc::detail::TestListenerAdapter silent;
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata{}, params, silent,
                                                std::unordered_map<std::string, rc::detail::Reproduce>{});
  if (result.template is<rc::detail::SuccessResult>()) return "";
  std::ostringstream report;
  rc::detail::printResultMessage(result, report);
  return report.str();
}

/// Checks a property of all plans of random steps: `property(step, problem, plan)` asserts with RC_ASSERT.
template <class Property>
std::string failure_among_plans(Property property) {
  return failure_of([&](const StepDescription& description) {
    const RandomStep step = make_step(description);
    const Problem problem = make_problem(description, step);
    for (const std::string& policy : policy_names()) {
      RC_LOG() << "policy " << policy << '\n';
      Plan plan;
      try {
        plan = make_plan(problem, find_policy(policy), policy);  // verifies
      } catch (const PlanError& error) {
        constexpr int kExhaustible = 12;  // nodes
        if (policy == "exhaustive" && step.graph.node_count() > kExhaustible) continue;
        RC_FAIL(error.what());
      }
      property(step, problem, plan);
    }
  });
}

/// Places nodes on the streams in rotation, without any waits for dependences.
Plan careless_plan(const RandomStep& step, const Problem& problem) {
  Plan plan = make_plan(problem, serial, "serial");
  plan.commands.streams.assign(static_cast<std::size_t>(problem.streams), {});
  plan.workspaces.assign(static_cast<std::size_t>(problem.streams), {});
  int next = 0;
  for (NodeId node = 0; node < step.graph.node_count(); ++node) {
    if (step.graph.node(node).is_view) continue;
    plan.placements[node].stream = next++ % problem.streams;
    plan.commands.streams[static_cast<std::size_t>(plan.placements[node].stream)].push_back({Kind::launch, node});
  }
  plan_memory(step.graph, step.costs, plan);
  return plan;
}

}  // namespace

TEST_CASE("every policy's plan is safe, by verifier, oracle and three steps in a row") {
  CHECK(failure_among_plans([](const RandomStep& step, const Problem&, const Plan& plan) {
          RC_ASSERT(joined(verify_plan(step.graph, step.costs, plan)) == "");
          RC_ASSERT(SafetyOracle(step.graph, step.costs, plan).safe());
          RC_ASSERT(joined(verify_steps(step.graph, step.costs, plan)) == "");
        }) == "");
}

TEST_CASE("every wait of every policy's plan is necessary") {
  CHECK(failure_among_plans([](const RandomStep& step, const Problem&, const Plan& plan) {
          for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
            for (std::size_t i = 0; i < plan.commands.streams[s].size(); ++i) {
              if (plan.commands.streams[s][i].kind != Kind::wait) continue;
              Plan broken = plan;
              broken.commands.streams[s].erase(broken.commands.streams[s].begin() + static_cast<std::ptrdiff_t>(i));
              RC_ASSERT_FALSE(SafetyOracle(step.graph, step.costs, broken).safe());
              RC_ASSERT(joined(verify_plan(step.graph, step.costs, broken)) != "");
            }
          }
        }) == "");
}

TEST_CASE("values that are in use at the same time of the simulated run have bytes of their own") {
  CHECK(failure_among_plans([](const RandomStep& step, const Problem& problem, const Plan& plan) {
          const Simulation simulation = simulate(problem, plan);
          struct Lifetime {
            ValueId value;
            double begin, end;
          };
          std::vector<Lifetime> lifetimes;
          for (ValueId id = 0; id < step.graph.value_count(); ++id) {
            const Value& value = step.graph.value(id);
            if (value.root != id || value.slot >= 0 || value.bytes() == 0) continue;
            const double begin = value.producer == kNoNode ? 0 : simulation.runs[value.producer].start;
            double end = value.kept ? simulation.makespan : begin;
            for (NodeId node = 0; node < step.graph.node_count(); ++node) {
              const auto reads = [&](ValueId input) { return step.graph.value(input).root == id; };
              if (step.graph.node(node).is_view || !std::ranges::any_of(step.graph.inputs(node), reads)) continue;
              end = std::max(end, simulation.runs[node].finish);
            }
            lifetimes.push_back({id, begin, end});
          }
          for (const Lifetime& a : lifetimes) {
            for (const Lifetime& b : lifetimes) {
              const Value &first = step.graph.value(a.value), &second = step.graph.value(b.value);
              const bool together =
                  a.value < b.value && a.begin < b.end - kSumRounding && b.begin < a.end - kSumRounding;
              if (!together || second.reuses == a.value) continue;  // in place: the one begins while the other ends
              const std::int64_t begin = std::max(plan.offsets[a.value], plan.offsets[b.value]);
              const auto end_of = [&](ValueId id, const Value& value) {
                return plan.offsets[id] + static_cast<std::int64_t>(value.bytes());
              };
              RC_ASSERT(begin >= std::min(end_of(a.value, first), end_of(b.value, second)));
            }
          }
        }) == "");
}

TEST_CASE("every plan comes back from JSON as it was") {
  CHECK(failure_among_plans([](const RandomStep&, const Problem& problem, const Plan& plan) {
          RC_ASSERT(plan_from_json(to_json(plan), problem) == plan);
        }) == "");
}

TEST_CASE("no simulated run is faster than the lower bound, and on one stream it is the sum of the durations") {
  CHECK(failure_among_plans([](const RandomStep& step, const Problem& problem, const Plan& plan) {
          const double makespan = simulate(problem, plan).makespan;
          RC_ASSERT(plan.bound == lower_bound(problem));
          RC_ASSERT(makespan >= plan.bound.bound - kSumRounding);
          double sum = 0;
          for (NodeId node = 0; node < step.graph.node_count(); ++node) {
            sum += step.costs.of(node, plan.placements[node].implementation).duration;
          }
          const auto used =
              std::ranges::count_if(plan.commands.streams, [](const auto& commands) { return !commands.empty(); });
          if (used <= 1) RC_ASSERT(std::abs(makespan - sum) < kSumRounding);
          if (plan.policy == "serial") RC_ASSERT(used <= 1);
        }) == "");
}

TEST_CASE("a step with which a property fails is shrunk to a minimal one") {
  StepDescription smallest;
  const std::string report = failure_of([&](StepDescription description) {
    description.streams = 2;
    const RandomStep step = make_step(description);
    const Plan plan = careless_plan(step, make_problem(step.graph, step.costs, 2, step.capacity));
    if (verify_plan(step.graph, step.costs, plan).empty()) return true;
    smallest = description;  // the last one to fail is the smallest
    return false;
  });
  REQUIRE(smallest.nodes.size() == 2);  // the second reads the first, or updates what it reads
  CAPTURE(report);
  CHECK(report.find("Falsifiable") != std::string::npos);
  CHECK(report.find("streams, capacity 1, values: input, parameter, then") != std::string::npos);
  for (const NodeDescription& node : smallest.nodes) {
    CHECK(node.workspace == 0);
    CHECK(node.duration == 0);
    CHECK_FALSE(node.moldable);
  }
}

}  // namespace braid::scheduler::testing
