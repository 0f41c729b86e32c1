#include "runtime/compile/step_plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "autograd/functions.h"
#include "runtime/session.h"

namespace braid {
namespace {

/// The plans of a step with two independent chains, and a simulated clock.
struct MadeUpClock {
  explicit MadeUpClock(const SessionOptions& session_options) : options(session_options), session(options) {
    const Step step = session.step();
    for (int chain = 0; chain < 2; ++chain) {
      Tensor y = Array(DType::f32, {512, 512});
      for (int i = 0; i < 4; ++i) y = linear(y, Array(DType::f32, {512, 512}));
    }
    plans.emplace(session.tape().graph(), planner);
  }

  /// Runs one step that takes as long as its plan is told to. Returns the plan.
  const Executable& run(const std::function<double(const Executable&)>& seconds = always_alike) {
    const Executable& executable = plans->ready(arena, session);
    if (plans->wants_times() && node_microseconds != nullptr) {
      RunTimes times;
      for (NodeId id = 0; id < executable.graph().node_count(); ++id) {
        times.launches.push_back({id, 0, 0, node_microseconds(executable.chosen(id).width)});
      }
      plans->add_times(times);
    }
    if (plans->choice().comparing()) {
      plans->choice().add_run(seconds(executable));
    } else {
      plans->choice().add_interval(seconds(executable));
    }
    return executable;
  }

  static double always_alike(const Executable&) { return 0.01; }

  std::function<double(int width)> node_microseconds = nullptr;

  const SessionOptions options;
  Session session;
  std::unique_ptr<StreamGroup> streams = session.backend().make_streams({.count = 4});
  Planner planner{session, *streams, options};
  Arena arena{session.backend(), *streams};
  std::optional<StepPlans> plans;
};

/// Streams and whether all nodes run on one core.
std::pair<std::size_t, bool> kind(const Executable& executable) {
  bool narrow = true;
  for (NodeId id = 0; id < executable.graph().node_count(); ++id) narrow = narrow && executable.chosen(id).width == 1;
  return {executable.plan().commands.used_streams(), narrow};
}

TEST_CASE("whichever plan takes the least time is kept, and another one once that has become slow") {
  for (const char* policy : {"critical_path", "auto"}) {
    // The plans to choose from.
    MadeUpClock all({.device = "cpu", .policy = policy, .threads = 4});
    std::vector<std::pair<std::size_t, bool>> kinds;
    while (all.plans->choice().comparing()) {
      const auto found = kind(all.run());
      if (std::ranges::find(kinds, found) == kinds.end()) kinds.push_back(found);
    }
    REQUIRE(kinds.size() >= 3);
    CHECK(kinds.front() == std::pair(std::size_t{1}, false));
    CHECK(kind(all.run()) == kinds.front());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      MadeUpClock one({.device = "cpu", .policy = policy, .threads = 4});
      std::size_t fastest = i;
      const auto clock = [&](const Executable& plan) { return kind(plan) == kinds[fastest] ? 0.010 : 0.015; };
      while (one.plans->choice().comparing()) one.run(clock);
      CHECK(kind(one.run(clock)) == kinds[i]);
      CHECK_MESSAGE(one.plans->choice_report().find("; kept ") != std::string::npos, one.plans->choice_report());
      fastest = (i + 1) % kinds.size();
      for (int step = 0; step < 3000; ++step) one.run(clock);
      while (one.plans->choice().comparing()) one.run(clock);
      CHECK(kind(one.run(clock)) == kinds[fastest]);
      CHECK_MESSAGE(one.plans->choice_report().starts_with("compared again after "), one.plans->choice_report());
    }
  }
}

TEST_CASE("no two plans that are compared do the same") {
  MadeUpClock fixture({.device = "cpu", .threads = 4});
  std::vector<const Executable*> plans;
  while (fixture.plans->choice().comparing()) {
    const Executable* plan = &fixture.run();
    if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
  }
  REQUIRE(plans.size() >= 3);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      bool same = plans[i]->plan().commands.streams == plans[j]->plan().commands.streams;
      for (NodeId id = 0; id < plans[i]->graph().node_count(); ++id) {
        same = same && plans[i]->chosen(id) == plans[j]->chosen(id);
      }
      CHECK_FALSE(same);
    }
  }
}

TEST_CASE("a step that seldom runs has one plan, and the arena does not move once it is compared with others") {
  MadeUpClock fixture({.device = "cpu", .threads = 4});
  for (std::size_t run = 0; run < kRunsPerTurn; ++run) fixture.run();
  const std::size_t first = fixture.arena.bytes();
  CHECK(static_cast<std::int64_t>(first) == fixture.plans->current()->plan().arena_bytes);
  CHECK(fixture.plans->made() == 1);
  while (fixture.plans->choice().in_first_turn()) fixture.run();
  CHECK(fixture.plans->made() > 1);
  const void* const data = fixture.arena.data();
  REQUIRE(fixture.arena.bytes() > first);  // one of the others needs more
  while (fixture.plans->choice().comparing()) {
    fixture.run();
    CHECK(fixture.arena.data() == data);
  }
  fixture.run();
  CHECK(fixture.plans->made() == 1);
}

TEST_CASE("plans for several streams go by what nodes took on one stream") {
  MadeUpClock fixture({.device = "cpu", .threads = 2});
  fixture.node_microseconds = [](int width) { return width == 1 ? 100 : 90; };
  int concurrent = 0;
  while (fixture.plans->choice().comparing()) {
    const Executable& plan = fixture.run();
    if (plan.plan().commands.used_streams() == 1) continue;
    ++concurrent;
    CHECK(plan.plan().makespan == doctest::Approx(4 * 100).epsilon(0.05));
    CHECK(kind(plan) == std::pair(std::size_t{2}, true));
  }
  CHECK(concurrent > 0);
}

TEST_CASE("a fixed number of streams leaves nothing to choose") {
  MadeUpClock fixture({.device = "cpu", .streams = 2, .threads = 4});
  CHECK_FALSE(fixture.plans->choice().comparing());
  CHECK(fixture.run().plan().commands.used_streams() == 2);
  CHECK(fixture.plans->choice_report().empty());
}

}  // namespace
}  // namespace braid
