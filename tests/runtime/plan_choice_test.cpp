#include "runtime/compile/plan_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "core/base/error.h"

namespace braid {
namespace {

/// Milliseconds of run number `run` of a comparison, which belongs to this plan and this turn.
using Clock = std::function<double(std::size_t plan, std::size_t turn, std::size_t run)>;

const std::vector<std::string> kNames{"serial", "critical_path on 2 streams", "critical_path on 4 streams",
                                      "critical_path on 8 streams"};

PlanChoice choice_of(std::size_t plans) {
  std::vector<PlanChoice::Plan> named;
  for (std::size_t i = 0; i < plans; ++i) named.push_back({kNames[i]});
  return PlanChoice(std::move(named));
}

struct Runs {
  std::vector<std::size_t> of = std::vector<std::size_t>(kNames.size());  // per plan
  double milliseconds = 0;
  std::size_t all() const { return of[0] + of[1] + of[2] + of[3]; }
};

/// Runs the plans by such a clock until one is kept.
Runs compare(PlanChoice& choice, const Clock& milliseconds) {
  Runs runs;
  while (choice.comparing()) {
    REQUIRE(runs.all() < 1000);  // it ends
    const std::size_t plan = choice.next();
    const double time = milliseconds(plan, runs.of[plan] / kRunsPerTurn, runs.all());
    choice.add_run(time * 1e-3);
    ++runs.of[plan];
    runs.milliseconds += time;
  }
  return runs;
}

PlanChoice compared(std::size_t plans, const Clock& milliseconds) {
  PlanChoice choice = choice_of(plans);
  compare(choice, milliseconds);
  return choice;
}

/// What a reader can tell from the report alone.
struct Read {
  std::string first, kept;
  double saved = 0;  // per cent, as printed; 0 if none is
  struct Rival {
    std::string name;
    double relative, lower, upper;
  };
  std::vector<Rival> rivals;
};
Read read(const std::string& report) {
  const std::size_t end = report.find("; kept ");
  REQUIRE_MESSAGE(end != std::string::npos, report);
  char name[64];
  Read read;
  read.first = report.substr(0, report.find(": "));
  std::size_t at = report.find(" turns, ");
  REQUIRE_MESSAGE(at < end, report);
  for (at += 8; at < end; at = report.find(')', at) + 3) {
    Read::Rival rival{};
    REQUIRE_MESSAGE(std::sscanf(report.c_str() + at, "%63[^:]: %lf (%lf to %lf)", name, &rival.relative, &rival.lower,
                                &rival.upper) == 4,
                    report);
    rival.name = name;
    read.rivals.push_back(rival);
  }
  REQUIRE_MESSAGE(std::sscanf(report.c_str() + end, "; kept %63[^,], which saves %lf", name, &read.saved) >= 1, report);
  read.kept = name;
  return read;
}

/// The report must lead a reader to the same plan and the same gain.
void check_report(const PlanChoice& choice) {
  CAPTURE(choice.report());
  const Read told = read(choice.report());
  const auto best = std::ranges::min_element(told.rivals, {}, &Read::Rival::relative);
  const double saved = best == told.rivals.end() ? 0 : 100 * (1 - best->relative);
  for (const Read::Rival& rival : told.rivals) {
    CHECK(rival.lower <= rival.relative);
    CHECK(rival.relative <= rival.upper);
  }
  if (saved > 1.95) {  // the report has one digit after the point
    CHECK(told.kept == best->name);
    CHECK(std::abs(told.saved - saved) < 1e-9);
  } else {
    CHECK(told.kept == told.first);
  }
  CHECK(told.kept == kNames[choice.next()]);
}

TEST_CASE("a plan is kept if it saves 2 % of the serial plan's time, and the report says what it saves") {
  for (const auto& [percent, kept] :
       {std::pair{0.0, 0}, {1.0, 0}, {1.94, 0}, {2.0, 1}, {3.0, 1}, {40.0, 1}, {-9.0, 0}, {-30.0, 0}, {-300.0, 0}}) {
    CAPTURE(percent);
    const PlanChoice choice =
        compared(2, [&](std::size_t plan, auto, auto) { return plan == 0 ? 140 : 140 * (1 - percent / 100); });
    CHECK(choice.next() == static_cast<std::size_t>(kept));
    check_report(choice);
  }
  CHECK(compared(2, [](std::size_t plan, auto, auto) { return plan == 0 ? 27.8 : 26.243; }).report() ==
        "serial: 27.8 ms; relative to it, as median and quartiles of up to 6 turns, critical_path on 2 streams: "
        "0.944 (0.944 to 0.944); kept critical_path on 2 streams, which saves 5.6 %");
  CHECK(compared(2, [](auto, auto, auto) { return 150; }).report() ==
        "serial: 150 ms; relative to it, as median and quartiles of up to 6 turns, critical_path on 2 streams: "
        "1.000 (1.000 to 1.000); kept serial, as no other saves enough");
  CHECK(compared(3, [](std::size_t plan, auto, auto) { return plan == 1 ? 10 : 20; }).report() ==
        "critical_path on 2 streams: 10.0 ms; relative to it, as median and quartiles of up to 2 turns, serial: 2.000 "
        "(2.000 to 2.000), critical_path on 4 streams: 2.000 (2.000 to 2.000); kept critical_path on 2 streams, as no "
        "other saves enough");
}

TEST_CASE("of several plans the one that saves most is kept, and of equal ones the one with fewest streams") {
  const std::vector<double> times{100, 98, 95, 95};
  const PlanChoice choice = compared(4, [&](std::size_t plan, auto, auto) { return times[plan]; });
  CHECK(choice.next() == 2);
  check_report(choice);
}

TEST_CASE("a plan that must save more than others is kept only if it does") {
  for (const auto& [second, third, kept] :
       {std::tuple{0.97, 0.95, 1U}, {0.99, 0.95, 0U}, {0.97, 0.90, 2U}, {0.88, 0.90, 1U}}) {
    PlanChoice choice({{kNames[0]}, {kNames[1]}, {.name = kNames[2], .least_gain = 0.1}});
    const double times[] = {1, second, third};
    compare(choice, [&](std::size_t plan, auto, auto) { return 100 * times[plan]; });
    CHECK(choice.next() == kept);
  }
}

TEST_CASE("a summary names the kept plan and its time, how others differ from it, and the rule that refused one") {
  const auto summary = [](const std::vector<double>& milliseconds) {
    PlanChoice choice({{"serial"}, {"critical_path on 2 streams"}, {.name = "serial on one core", .least_gain = 0.1}});
    compare(choice, [&](std::size_t plan, auto, auto) { return milliseconds[plan]; });
    return choice.summary();
  };
  CHECK(summary({50, 55, 56.4}) == "serial kept, 50.0 ms/step (2 streams +10 %, one core +13 %)");
  CHECK(summary({50, 49.05, 47.5}) ==
        "serial kept, 50.0 ms/step (2 streams -1.9 % of the 2 % needed, one core -5.0 % of the 10 % needed)");
  CHECK(summary({50, 40, 50}) == "critical_path on 2 streams kept, 40.0 ms/step (serial +25 %, one core +25 %)");
  CHECK(summary({50, 47.5, 46}) ==
        "critical_path on 2 streams kept, 47.5 ms/step (serial +5 %, one core -3.2 % of the 10 % needed)");
  CHECK(choice_of(1).summary().empty());
}

TEST_CASE("a machine that becomes slower and slower does not change the choice") {
  // Medians of each plan's own times would find 7 % between equal plans here, because serial always runs first.
  for (const double gain : {0.0, 0.03}) {
    const PlanChoice choice = compared(2, [&](std::size_t plan, std::size_t turn, auto) {
      return (10 + 5 * static_cast<double>(turn)) * (plan == 0 ? 1 : 1 - gain);
    });
    CHECK(choice.next() == (gain > 0 ? 1 : 0));
    CHECK(read(choice.report()).rivals.at(0).relative == doctest::Approx(1 - gain));
    check_report(choice);
  }
}

TEST_CASE("disturbed turns, first runs of a turn, and the first turn do not decide") {
  const PlanChoice choice = compared(2, [](std::size_t plan, std::size_t turn, std::size_t run) {
    if (run % kRunsPerTurn == 0) return plan == 0 ? 1.0 : 100.0;
    if (turn == 0) return plan == 0 ? 10.0 : 14.0;
    if (turn == 2 || turn == 5) return plan == 0 ? 10.0 : 80.0;
    return plan == 0 ? 10.0 : 9.5;
  });
  CHECK(choice.report().starts_with("serial: 10.0 ms"));
  CHECK(choice.next() == 1);
  CHECK(read(choice.report()).rivals.at(0).relative == 0.95);
  CHECK(read(choice.report()).rivals.at(0).upper > 2);  // the spread shows them
  check_report(choice);
}

TEST_CASE("both counted runs of a turn count alike") {
  // 10 and 14 in every turn: neither the faster nor the slower of them represents the turn.
  const PlanChoice choice = compared(2, [](std::size_t plan, auto, std::size_t run) {
    return plan == 0 ? 12.0 : run % kRunsPerTurn == 1 ? 10.0 : 14.0;
  });
  CHECK(read(choice.report()).rivals.at(0).relative == 1);
  CHECK(choice.next() == 0);
}

TEST_CASE("the report agrees with the decision for any times") {
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.04);
  std::bernoulli_distribution disturbed(0.1);
  std::size_t concurrent = 0;
  for (int i = 0; i < 500; ++i) {
    const double speed = 0.96 + 0.06 * (i % 2);
    const PlanChoice choice =
        compared(2 + static_cast<std::size_t>(i % 3), [&](std::size_t plan, auto, std::size_t run) {
          const double drift = 1 + 0.01 * static_cast<double>(run % 40);
          return 20 * drift * noise(random) * (plan == 0 ? 1 : speed) * (disturbed(random) ? 3 : 1);
        });
    check_report(choice);
    if (choice.next() > 0) ++concurrent;
  }
  CHECK(concurrent > 50);
  CHECK(concurrent < 450);
}

TEST_CASE("one plan is kept without a comparison") {
  PlanChoice choice({{"serial"}});
  CHECK_FALSE(choice.comparing());
  CHECK(choice.next() == 0);
  CHECK(choice.report().empty());
  for (int i = 0; i < 1000; ++i) choice.add_interval(i < 500 ? 1 : 100);
  CHECK_FALSE(choice.comparing());
  CHECK_THROWS_AS(choice.add_run(1), Error);
  CHECK_THROWS_AS(PlanChoice({}), Error);
}

TEST_CASE("slow plans leave early, so that a comparison loses a few steps' time for each plan") {
  std::mt19937 random(2);
  std::lognormal_distribution<double> spread(0, 0.7);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    std::vector<double> times(4);
    for (double& time : times) time = 10 * std::clamp(spread(random), 0.5, 1.5);
    const double least = std::ranges::min(times);
    const auto close = std::ranges::count_if(times, [&](double time) { return time < 1.05 * least; });
    PlanChoice choice = choice_of(4);
    const Runs runs = compare(choice, [&](std::size_t plan, auto, auto) { return times[plan]; });
    CHECK(times[choice.next()] <= least / (1 - kLeastGain) * 1.001);
    CHECK(runs.milliseconds - least * static_cast<double>(runs.all()) <= 3 * 6 * 2 * least);
    for (std::size_t plan = 0; plan < 4; ++plan) {
      if (times[plan] > 1.51 * least) CHECK(runs.of[plan] == 2 * kRunsPerTurn);
      if (close > 1 && times[plan] < 1.05 * least) CHECK(runs.of[plan] == kMostTurns * kRunsPerTurn);
    }
  }
}

TEST_CASE("a comparison loses about 2 % of a training of known length, or does not take place") {
  const std::vector<double> times{10, 11, 15, 18};
  std::size_t longest = 0;
  for (const std::int64_t expected : {1, 100, 449, 450, 468, 700, 1000, 100000}) {
    CAPTURE(expected);
    PlanChoice choice({{kNames[0]}, {kNames[1]}, {kNames[2]}, {kNames[3]}}, expected);
    CHECK(choice.comparing() == (expected >= 450));  // 2 % are three runs of three plans
    const Runs runs = compare(choice, [&](std::size_t plan, auto, auto) { return times[plan]; });
    CHECK(choice.next() == 0);
    CHECK(runs.milliseconds - 10 * static_cast<double>(runs.all()) <= 0.023 * 10 * static_cast<double>(expected));
    CHECK(runs.all() >= longest);
    longest = runs.all();
    for (int i = 0; i < 100 && expected < 450; ++i) choice.add_interval(i < 50 ? 1 : 100);
    CHECK_FALSE(choice.comparing());
  }
}

TEST_CASE("a short comparison does not decide by the first turn, which is cold") {
  PlanChoice choice({{kNames[0]}, {kNames[1]}, {kNames[2]}, {kNames[3]}}, 468);
  const std::vector<double> times{60, 65, 110, 75};
  compare(choice, [&](std::size_t plan, std::size_t, std::size_t run) { return run == 0 ? 400 : times[plan]; });
  CHECK(choice.next() == 0);
}

TEST_CASE("runs that take long need no company, and a comparison loses a few seconds at most") {
  const std::vector<double> times{2000, 2400, 2800, 4500};
  PlanChoice choice = choice_of(4);
  const Runs runs = compare(choice, [&](std::size_t plan, auto, auto) { return times[plan]; });
  CHECK(choice.next() == 0);
  CHECK(runs.of == std::vector<std::size_t>{3, 2, 2, 2});
  PlanChoice longest = choice_of(2);
  CHECK(compare(longest, [](std::size_t plan, auto, auto) { return plan == 0 ? 63000 : 60000; }).all() == 5);
  CHECK(longest.next() == 1);
}

TEST_CASE("when a plan is dropped in the middle, the turns of the others begin anew") {
  const std::vector<double> times{100, 95, 90, 85};
  for (std::size_t dropped = 0; dropped < 4; ++dropped) {
    for (const std::size_t after : {0U, 1U, 4U, 10U, 12U, 13U, 30U}) {
      CAPTURE(dropped);
      CAPTURE(after);
      PlanChoice choice = choice_of(4);
      for (std::size_t run = 0; run < after; ++run) choice.add_run(times[choice.next()] * 1e-3);
      choice.drop(dropped);
      CHECK(choice.left() == 3);
      const Runs runs = compare(choice, [&](std::size_t plan, auto, auto) { return times[plan]; });
      CHECK(runs.of[dropped] == 0);
      CHECK(choice.next() == (dropped == 3 ? 2 : 3));
      check_report(choice);
    }
  }
}

TEST_CASE("plans are dropped until one is left, which is kept, and the kept one is replaced") {
  PlanChoice choice = choice_of(3);
  choice.drop(1);
  choice.drop(0);
  CHECK(choice.next() == 2);
  CHECK_FALSE(choice.comparing());
  CHECK(choice.report().empty());
  choice.drop(2);
  CHECK(choice.left() == 0);

  const std::vector<double> times{100, 80, 90};
  PlanChoice replaced = compared(3, [&](std::size_t plan, auto, auto) { return times[plan]; });
  REQUIRE(replaced.next() == 1);
  replaced.drop(1);
  CHECK(replaced.comparing());
  compare(replaced, [&](std::size_t plan, auto, auto) { return times[plan]; });
  CHECK(replaced.next() == 2);
  replaced.drop(0);
  CHECK(replaced.next() == 2);
  CHECK_FALSE(replaced.comparing());
}

/// A training by a clock of milliseconds that knows the time.
struct Training {
  PlanChoice choice;
  double now = 0;
  std::vector<std::string> reports;  // reports of the comparisons
  double compared_again = 0;         // milliseconds of comparisons after the first one

  explicit Training(std::size_t plans) : choice(choice_of(plans)) {}
  void run(double until, const std::function<double(std::size_t plan, double now)>& milliseconds, double pause = 0) {
    while (now < until) {
      const double time = milliseconds(choice.next(), now);
      if (choice.comparing()) {
        choice.add_run(time * 1e-3);
        if (!reports.empty()) compared_again += time;
        if (!choice.comparing()) reports.push_back(choice.report());
      } else {
        choice.add_interval((time + pause) * 1e-3);
      }
      now += time + pause;
    }
  }
};

TEST_CASE("a plan that has become slow is compared again, and another one takes over") {
  // Plan 1 is the fastest until other programs take its cores; then plan 2 is, and later plan 1 again.
  const auto clock = [](std::size_t plan, double now) {
    const bool busy = now > 60e3 && now < 180e3;
    const double quiet_times[] = {14, 13, 25}, busy_times[] = {45, 50, 26};
    return busy ? busy_times[plan] : quiet_times[plan];
  };
  Training training(3);
  training.run(60e3, clock);
  CHECK(training.choice.next() == 1);
  const std::size_t before = training.reports.size();
  training.run(70e3, clock);
  CHECK(training.choice.next() == 2);
  REQUIRE(training.reports.size() > before);
  CHECK_MESSAGE(training.reports[before].starts_with("compared again after "), training.reports[before]);
  CHECK_MESSAGE(training.reports[before].find(" steps, which came to take 3.85 times as long: critical_path on "
                                              "4 streams: 26.0 ms; ") != std::string::npos,
                training.reports[before]);
  training.run(180e3, clock);
  CHECK(training.choice.next() == 2);
  // Its own steps do not become faster when the others end: only the regular comparison finds out.
  training.run(300e3, clock);
  CHECK(training.choice.next() == 1);
}

TEST_CASE("comparing again loses at most 5 % of the time, whatever happens") {
  const std::vector<double> times{14, 13.5, 25, 17};
  for (const double period : {0.0, 500.0, 4e3, 40e3}) {
    CAPTURE(period);
    std::mt19937 random(3);
    std::lognormal_distribution<double> noise(0, 0.1);
    double lost = 0;
    Training training(4);
    training.run(500e3, [&](std::size_t plan, double now) {
      const double slow = noise(random) * (period > 0 && std::fmod(now, period) > period / 2 ? 2 : 1);
      if (training.choice.comparing() && !training.reports.empty()) lost += slow * (times[plan] - 13.5);
      return slow * times[plan];
    });
    CHECK(training.reports.size() > 2);
    CHECK(lost < 500e3 * kLossShare);
    CHECK(training.compared_again < 500e3 * kLossShare / 0.1);
  }
}

TEST_CASE("steps that always take the same time are compared again at growing intervals") {
  Training training(2);
  const auto clock = [](std::size_t plan, double) { return plan == 0 ? 10.0 : 11.0; };
  std::vector<std::size_t> comparisons;
  for (const double until : {100e3, 200e3, 400e3}) {
    training.run(until, clock);
    comparisons.push_back(training.reports.size());
  }
  CHECK(comparisons[0] >= 3);
  CHECK(comparisons[2] - comparisons[1] <= comparisons[0]);
  CHECK_MESSAGE(training.choice.report().find(" steps: serial: 10.0 ms; ") != std::string::npos,
                training.choice.report());
}

TEST_CASE("a pause between steps is no reason to compare again, nor what the host always does") {
  Training training(2);
  const auto clock = [](std::size_t plan, double) { return plan == 0 ? 10.0 : 11.0; };
  training.run(3000, clock, 30);
  REQUIRE(training.reports.size() == 1);
  for (int i = 0; i < 4; ++i) {
    training.choice.add_interval(3600);
    training.run(training.now + 300, clock, 30);
  }
  CHECK(training.reports.size() == 1);
}

TEST_CASE("the plan in use is the one to beat when plans are compared again") {
  // 1 % slower than another by now, which is no reason to leave it.
  Training training(2);
  training.run(2e3, [](std::size_t plan, double) { return plan == 0 ? 10.0 : 9.5; });
  REQUIRE(training.choice.next() == 1);
  training.run(300e3, [](std::size_t plan, double) { return plan == 0 ? 10.0 : 10.1; });
  CHECK(training.reports.size() > 1);
  CHECK(training.choice.next() == 1);
  CHECK(read(training.choice.report().substr(training.choice.report().find("steps: ") + 7)).first == kNames[1]);
}

}  // namespace
}  // namespace braid
