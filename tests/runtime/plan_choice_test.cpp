#include "runtime/plan_choice.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "core/error.h"

namespace braid {
namespace {

/// Milliseconds of run number `run` of the whole comparison, which belongs to this plan and this turn.
using Clock = std::function<double(std::size_t plan, std::size_t turn, std::size_t run)>;

/// Plans that take turns by such a clock.
PlanChoice compared(std::size_t plans, const Clock& milliseconds) {
  std::vector<PlanRuns> runs{{"serial"}};
  for (std::size_t i = 1; i < plans; ++i) runs.push_back({message("critical_path on ", 1 << i, " streams")});
  std::size_t run = 0;
  for (std::size_t turn = 0; turn < kMeasuredTurns; ++turn) {
    for (std::size_t plan = 0; plan < plans; ++plan) {
      for (std::size_t i = 0; i < kRunsPerTurn; ++i) {
        runs[plan].seconds.push_back(milliseconds(plan, turn, run++) * 1e-3);
      }
    }
  }
  return compare(runs);
}

/// What a reader can tell from the report alone.
struct Read {
  std::string kept;
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
  constexpr const char* kRival = "critical_path on ";
  char name[64];
  Read read;
  for (std::size_t at = report.find(kRival); at < end; at = report.find(kRival, at + 1)) {
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
  const std::string report = choice.report();
  CAPTURE(report);
  const Read told = read(report);
  REQUIRE(told.rivals.size() == choice.rivals.size());
  const auto best = std::ranges::min_element(told.rivals, {}, &Read::Rival::relative);
  const double saved = 100 * (1 - best->relative);
  for (const Read::Rival& rival : told.rivals) {
    CHECK(rival.lower <= rival.relative);
    CHECK(rival.relative <= rival.upper);
  }
  if (saved > 1.95) {  // of numbers with one digit after the point
    CHECK(told.kept == best->name);
    CHECK(std::abs(told.saved - saved) < 1e-9);
  } else {
    CHECK(told.kept == "serial");
  }
  CHECK(told.kept == (choice.kept() == 0 ? choice.first : choice.rivals[choice.kept() - 1].name));
}

TEST_CASE("a plan is kept if it saves 2 % of the serial plan's time, and the report says what it saves") {
  for (const auto& [percent, kept] :
       {std::pair{0.0, 0}, {1.0, 0}, {1.94, 0}, {2.0, 1}, {3.0, 1}, {40.0, 1}, {-30.0, 0}}) {
    CAPTURE(percent);
    const PlanChoice choice =
        compared(2, [&](std::size_t plan, auto, auto) { return plan == 0 ? 240 : 240 * (1 - percent / 100); });
    CHECK(choice.kept() == static_cast<std::size_t>(kept));
    check_report(choice);
  }
  const PlanChoice choice = compared(2, [](std::size_t plan, auto, auto) { return plan == 0 ? 27.8 : 22.38; });
  CHECK(choice.report() ==
        "serial: 27.8 ms; relative to it, as median and quartiles of 6 turns, critical_path on 2 streams: "
        "0.805 (0.805 to 0.805); kept critical_path on 2 streams, which saves 19.5 %");
  CHECK(compared(2, [](auto, auto, auto) { return 1500; }).report() ==
        "serial: 1500 ms; relative to it, as median and quartiles of 6 turns, critical_path on 2 streams: "
        "1.000 (1.000 to 1.000); kept serial, as no other saves 2 % of its time");
}

TEST_CASE("of several plans the one that saves most is kept, and of equal ones the one with fewest streams") {
  const std::vector<double> times{100, 95, 90, 90};
  const PlanChoice choice = compared(4, [&](std::size_t plan, auto, auto) { return times[plan]; });
  CHECK(choice.kept() == 2);
  check_report(choice);
}

TEST_CASE("a machine that becomes slower and slower does not change the choice") {
  // Medians of each plan's own times would find 7 % between equal plans here, because serial always runs first.
  for (const double gain : {0.0, 0.03}) {
    const PlanChoice choice = compared(2, [&](std::size_t plan, std::size_t turn, auto) {
      return (10 + 5 * static_cast<double>(turn)) * (plan == 0 ? 1 : 1 - gain);
    });
    CHECK(choice.kept() == (gain > 0 ? 1 : 0));
    CHECK(choice.rivals[0].relative.median == doctest::Approx(1 - gain));
    check_report(choice);
  }
}

TEST_CASE("disturbed turns, first runs of a turn, and the first turn do not decide") {
  const PlanChoice choice = compared(2, [](std::size_t plan, std::size_t turn, std::size_t run) {
    if (turn == 0 || run % kRunsPerTurn == 0) return plan == 0 ? 1.0 : 1000.0;
    if (turn == 2 || turn == 5) return plan == 0 ? 10.0 : 80.0;
    return plan == 0 ? 10.0 : 9.0;
  });
  CHECK(choice.seconds == doctest::Approx(0.010));
  CHECK(choice.kept() == 1);
  CHECK(choice.rivals[0].relative.median == 0.9);
  CHECK(choice.rivals[0].relative.upper > 2);  // the spread shows them
  check_report(choice);
}

TEST_CASE("both counted runs of a turn count alike") {
  // 10 and 14 in every turn: neither the faster nor the slower of them stands for the turn.
  const PlanChoice choice = compared(2, [](std::size_t plan, auto, std::size_t run) {
    return plan == 0 ? 12.0 : run % kRunsPerTurn == 1 ? 10.0 : 14.0;
  });
  CHECK(choice.rivals[0].relative.median == 1);
  CHECK(choice.kept() == 0);
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
    if (choice.kept() > 0) ++concurrent;
  }
  CHECK(concurrent > 50);
  CHECK(concurrent < 450);
}

TEST_CASE("plans without all their turns are not compared") {
  CHECK_THROWS_AS(compare(std::vector<PlanRuns>{{"serial", {1, 2, 3}}}), Error);
}

}  // namespace
}  // namespace braid
