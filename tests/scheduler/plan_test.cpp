#include <doctest/doctest.h>

#include <cctype>
#include <cstring>
#include <limits>

#include "tests/error_of.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

Problem small_problem(std::uint64_t seed) {
  const RandomStep step = random_step(seed, 12);
  return make_problem(step.graph, step.costs, 3, step.capacity);
}

Plan plan_of(const Problem& problem) { return make_plan(problem, critical_path, "critical_path"); }

/// Plans must come back from JSON or be refused with PlanError: nothing else.
bool is_refused(const std::string& json, const Problem& problem) {
  return !braid::testing::error_of<PlanError>([&] { plan_from_json(json, problem); }).empty();
}

/// The text with [begin, end) replaced.
std::string with(std::string text, std::size_t begin, std::size_t end, std::string_view other) {
  return text.replace(begin, end - begin, other);
}

}  // namespace

TEST_CASE("impossible problems are refused with the reason") {
  StepGraph graph;
  add(graph, {});
  const Costs costs = unit_costs(graph);
  CHECK_THROWS_WITH_AS(make_plan(graph, costs, serial, "serial", 0, 1), "[plan] expected at least 1 stream, got 0",
                       PlanError);
  CHECK_THROWS_AS(make_plan(graph, costs, serial, "serial", 1, 0), PlanError);
  CHECK_THROWS_AS(make_plan(graph, Costs{}, serial, "serial", 1, 1), PlanError);
  Costs wide;
  const Cost cost{.width = 3, .duration = 1};
  wide.add({&cost, 1});
  CHECK_THROWS_WITH_AS(make_plan(graph, wide, serial, "serial", 1, 2),
                       "[plan] node 0 'test' has an implementation of width 3 and duration 1 us; the capacity is 2",
                       PlanError);
  for (const double duration : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    CHECK_THROWS_AS(make_plan(graph, unit_costs(graph, duration), serial, "serial", 1, 1), PlanError);
  }
}

TEST_CASE("a policy that forgets a node or breaks the order is detected") {
  StepGraph graph;
  add(graph, {add(graph, {})});
  const Policy forgetful = [](const Problem& problem) {
    Schedule schedule = serial(problem);
    schedule.order.pop_back();
    return schedule;
  };
  const Policy reversed = [](const Problem& problem) {
    Schedule schedule = serial(problem);
    std::ranges::reverse(schedule.order);
    return schedule;
  };
  CHECK_THROWS_AS(make_plan(graph, unit_costs(graph), forgetful, "forgetful", 1, 1), PlanError);
  CHECK_THROWS_AS(make_plan(graph, unit_costs(graph), reversed, "reversed", 1, 1), PlanError);
}

TEST_CASE("an unsafe plan in JSON, or one of another step, is refused") {
  int unsafe = 0;
  for (std::uint64_t seed = 0; seed < some_of(100); ++seed) {
    const Problem problem = small_problem(seed);
    Plan plan = plan_of(problem);
    CHECK(is_refused(to_json(plan), small_problem(seed + 1)));
    for (auto& commands : plan.commands.streams) {
      unsafe += static_cast<int>(std::erase_if(commands, [](Command c) { return c.kind == Command::Kind::wait; }));
    }
    if (plan.commands.streams != plan_of(problem).commands.streams) {
      CHECK_THROWS_WITH_AS(plan_from_json(to_json(plan), problem), doctest::Contains("made an unsafe plan"), PlanError);
    }
  }
  CHECK(unsafe > some_of(100));
}

TEST_CASE("JSON with a number of the wrong type or range is refused") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Problem problem = small_problem(seed);
    const std::string json = to_json(plan_of(problem));
    for (std::size_t begin = 0; begin < json.size(); ++begin) {
      const auto in_number = [&](std::size_t i) { return std::isdigit(json[i]) || std::strchr("-+.e", json[i]); };
      if (!std::strchr("[:,", json[begin]) || !(std::isdigit(json[begin + 1]) || json[begin + 1] == '-')) continue;
      std::size_t end = ++begin;
      while (in_number(end)) ++end;
      const bool integer = json.substr(begin, end - begin).find_first_of(".e") == std::string::npos;
      INFO(with(json, begin, end, "<here>"));
      for (const char* bad : {"-7", "null", "true", "\"7\"", "[]", "{}"})
        REQUIRE(is_refused(with(json, begin, end, bad), problem));
      for (const char* bad : {"1.5", "18446744073709551615"})
        REQUIRE(is_refused(with(json, begin, end, bad), problem) == integer);
    }
  }
}

TEST_CASE("JSON with a key missing or unknown, or cut short, is refused") {
  const Problem problem = small_problem(3);
  const std::string json = to_json(plan_of(problem));
  for (std::size_t colon = json.find("\":"); colon != std::string::npos; colon = json.find("\":", colon + 1)) {
    INFO(json.substr(0, colon));
    REQUIRE(is_refused(with(json, colon, colon, "x"), problem));
  }
  CHECK(is_refused(with(json, 1, 1, "\"more\":1,"), problem));
  CHECK(is_refused("[]", problem));
  CHECK(is_refused(json.substr(0, json.size() / 2), problem));
  CHECK(is_refused("null", problem));
  CHECK_THROWS_WITH_AS(plan_from_json("{}", problem), "[plan json] the whole has 0 entries instead of 12, got {}",
                       PlanError);
}

}  // namespace braid::scheduler::testing
