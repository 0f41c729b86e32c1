#include "apps/playground/tasks.h"

#include <doctest/doctest.h>

#include "core/base/random.h"
#include "scheduler/policy.h"
#include "tests/error_of.h"

namespace braid {
namespace {

Json answer_to(const Json& request) { return parse_json(plan_tasks(request)); }

Json random_tasks(std::uint64_t seed, int most) {
  Generator random(seed);
  const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<std::uint32_t>(bound))); };
  const int capacity = 1 + below(4);
  Json tasks = Json::array();
  for (int i = 0, count = 1 + below(most); i < count; ++i) {
    Json after = Json::array();
    for (int j = std::max(0, i - 3); j < i; ++j) {
      if (below(2) == 0) after.push_back(message("t", j));
    }
    tasks.push_back({{"name", message("t", i)},
                     {"microseconds", below(9)},
                     {"width", 1 + below(capacity)},
                     {"bytes", 256 * below(4)},
                     {"after", after}});
  }
  return Json{{"tasks", tasks}, {"streams", 1 + below(3)}, {"capacity", capacity}};
}

/// A chain over two streams: b reads what a writes.
Json pair() {
  const Json tasks = Json::array({{{"name", "a"}, {"microseconds", 2}, {"bytes", 256}},
                                  {{"name", "b"}, {"microseconds", 3}, {"after", Json::array({"a"})}}});
  const Json schedule = Json::array({{{"task", "a"}, {"stream", 0}}, {{"task", "b"}, {"stream", 1}}});
  return Json{{"graph", Json{{"tasks", tasks}, {"streams", 2}, {"capacity", 2}}}, {"schedule", schedule}};
}
Json edit_of(const Json& plan) {
  return Json{{"events", plan["events"]}, {"streams", plan["streams"]}, {"offsets", plan["offsets"]}};
}

TEST_CASE("plans of tasks are safe, and the best schedule of a small graph is what it says, and no policy is faster") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Json graph = random_tasks(seed, 9);
    const Json best = answer_to({{"graph", graph}, {"policy", "serial"}, {"optimum", true}});
    const double optimum = best["optimum"].as_double();
    const Json again = answer_to({{"graph", graph}, {"schedule", best["best"]}});
    CHECK(again["makespan"].as_double() == doctest::Approx(optimum));
    CHECK(again["faults"].empty());
    for (const scheduler::NamedPolicy& named : scheduler::kPolicies) {
      const Json planned = answer_to({{"graph", graph}, {"policy", named.name}});
      CHECK(planned["faults"].empty());
      CHECK(planned["makespan"].as_double() >= optimum - 1e-9);
    }
  }
}

TEST_CASE("the best schedule within a limit of memory keeps to it, and without need for one it is the best of all") {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Json graph = random_tasks(seed, 6);
    const double optimum =
        answer_to({{"graph", graph}, {"policy", "serial"}, {"optimum", true}})["optimum"].as_double();
    graph["limit"] = 1 << 20;
    const Json roomy = answer_to({{"graph", graph}, {"policy", "serial"}, {"optimum", true}});
    if (!roomy["optimum"].is_null()) CHECK(roomy["optimum"].as_double() == doctest::Approx(optimum));
    graph["limit"] = 1024;
    const Json tight = answer_to({{"graph", graph}, {"policy", "serial"}, {"optimum", true}});
    if (tight["optimum"].is_null()) continue;
    ++compared;
    const Json again = answer_to({{"graph", graph}, {"schedule", tight["best"]}});
    CHECK(again["fits"].as_bool());
    CHECK(again["makespan"].as_double() == doctest::Approx(tight["optimum"].as_double()));
    CHECK(tight["optimum"].as_double() >= optimum - 1e-9);
  }
  CHECK(compared > 20);
}

TEST_CASE("a plan without a wait that it needs has a fault, and a slow run in which the reader does not wait") {
  Json request = pair();
  Json plan = answer_to(request)["plan"];
  CHECK(plan["streams"][1].size() == 2);
  request["edit"] = edit_of(plan);
  CHECK(answer_to(request)["faults"].empty());
  request["edit"]["streams"][1] = Json::array({{{"launch", 1}}});
  request["microseconds"] = Json::array({9, 3});
  const Json broken = answer_to(request);
  CHECK(broken["faults"][0].text() ==
        "node 1 'b' on stream 1 reads value 0 but is not ordered after node 0 'a' on stream 0, which writes it.");
  CHECK(broken["runs"][1]["start"].as_double() < broken["runs"][0]["finish"].as_double());
}

TEST_CASE("a plan that deadlocks has no run") {
  Json request = pair();
  request["edit"] = edit_of(answer_to(request)["plan"]);
  Json& stream = request["edit"]["streams"][0];
  stream = Json::array({{{"wait", 0}}, {{"launch", 0}}, {{"record", 0}}});
  const Json stuck = answer_to(request);
  CHECK(!stuck.contains("runs"));
  CHECK(stuck["faults"][0].text() == "Stream 0 waits for event 0 forever: deadlock.");
}

TEST_CASE("mistakes in tasks, schedules and edits are errors that say where") {
  const auto error = [](const auto& change) {
    Json request = pair();
    change(request);
    return testing::error_of<Error>([&] { plan_tasks(request); });
  };
  const auto first = [](Json& request) -> Json& { return request["graph"]["tasks"][std::size_t{0}]; };
  CHECK(error([&](Json& r) { first(r)["name"] = "b"; }) == "'graph.tasks[1].name' is the name of two tasks, got \"b\"");
  CHECK(error([&](Json& r) { first(r)["after"] = Json::array({"b"}); }) ==
        "'graph.tasks[0].after[0]' must be the name of a task that is listed before this one, got \"b\"");
  CHECK(error([&](Json& r) { first(r)["microseconds"] = -1; }) ==
        "'graph.tasks[0].microseconds' must be a number of at least 0, got -1");
  CHECK(error([&](Json& r) { first(r)["microseconds"] = 1e300; }).ends_with("microseconds, got 1e+300"));
  CHECK(error([&](Json& r) { first(r)["width"] = 3; }) ==
        "'graph.tasks[0].width' must be an integer from 1 to 2, got 3");
  CHECK(error([&](Json& r) { r["graph"]["tasks"] = Json::array(); }) ==
        "'graph.tasks' must have 1 to 64 tasks, got []");
  CHECK(error([&](Json& r) { r["graph"]["streams"] = 0; }) == "'graph.streams' must be an integer from 1 to 16, got 0");
  CHECK(error([&](Json& r) { r["policy"] = "best"; }).starts_with("[policy] expected one of serial, "));
  CHECK(error([&](Json& r) { std::swap(r["schedule"][std::size_t{0}], r["schedule"][1]); }) ==
        "'schedule[0].task' must come after 'a', which it needs, got \"b\"");
  CHECK(error([&](Json& r) { r["schedule"][1]["task"] = "a"; }) == "'schedule[1].task' is placed twice, got \"a\"");
  CHECK(error([&](Json& r) { r["schedule"][1]["stream"] = 2; }) ==
        "'schedule[1].stream' must be an integer from 0 to 1, got 2");
  CHECK(error([&](Json& r) { r["schedule"].elements().pop_back(); }).starts_with("'schedule' does not place 'b', got"));
  CHECK(error([&](Json& r) { r["microseconds"] = Json::array({1}); }) ==
        "'microseconds' has 1 entries instead of 2, got [1]");
  CHECK(error([&](Json& r) {
          r["edit"] = edit_of(answer_to(r)["plan"]);
          r["edit"]["streams"][1][1]["launch"] = 2;
        }) == "'edit.streams[1][1].launch' must be an integer from 0 to 1, got 2");
}

}  // namespace
}  // namespace braid
