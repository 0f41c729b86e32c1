#include "tests/scheduler/least_makespan.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/scheduler/schedules.h"

namespace braid::scheduler::testing {
namespace {

/// The least makespan by trying everything: every order of the nodes and every implementation of each, where a node
/// starts as early as those placed before it allow. Some order and implementations give a best schedule, whatever it
/// looks like (the serial schedule generation scheme: Kolisch, "Serial and parallel resource-constrained project
/// scheduling methods revisited", 1996).
class Enumeration {
 public:
  explicit Enumeration(const Problem& problem) : problem_(problem), placed_(problem.graph.node_count()) {
    for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
      placed_[node].done = problem.graph.node(node).is_view;
    }
  }

  double least() {
    extend(0);
    return least_;
  }

 private:
  struct Place {
    bool done = false, runs = false;
    double start = 0, finish = 0;
    int width = 0, link = kNoLink;
  };

  void extend(double makespan) {
    bool complete = true;
    for (NodeId node = 0; node < problem_.graph.node_count(); ++node) {
      if (placed_[node].done) continue;
      complete = false;
      double earliest = 0;
      bool ready = true;
      for (const NodeId before : problem_.edges.predecessors(node)) {
        ready = ready && placed_[before].done;
        earliest = std::max(earliest, placed_[before].finish);
      }
      if (!ready) continue;
      for (const Cost& cost : problem_.costs.of(node)) {
        const double start = earliest_start(earliest, cost);
        placed_[node] = {true, true, start, start + cost.duration, cost.width, cost.link};
        extend(std::max(makespan, start + cost.duration));
        placed_[node] = {};
      }
    }
    if (complete) least_ = std::min(least_, makespan);
  }

  double earliest_start(double earliest, const Cost& cost) const {
    std::vector<double> times{earliest};
    for (const Place& place : placed_) {
      if (place.runs && place.finish > earliest) times.push_back(place.finish);
    }
    std::ranges::sort(times);
    return *std::ranges::find_if(times, [&](double time) { return fits(time, cost); });
  }

  bool fits(double start, const Cost& cost) const {
    std::vector<double> times{start};  // use is largest where something starts
    for (const Place& place : placed_) {
      if (place.runs && place.start > start && place.start < start + cost.duration) times.push_back(place.start);
    }
    return std::ranges::all_of(times, [&](double time) {
      int units = cost.width, streams = 1;
      bool link_is_free = true;
      for (const Place& place : placed_) {
        if (!place.runs || place.start > time || place.finish <= time) continue;
        units += place.width;
        if (cost.link == kNoLink && place.link == kNoLink) ++streams;
        if (cost.link != kNoLink && place.link == cost.link) link_is_free = false;
      }
      return units <= problem_.capacity && streams <= problem_.streams && link_is_free;
    });
  }

  const Problem& problem_;
  std::vector<Place> placed_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

TEST_CASE("the oracle finds the least makespan that enumeration finds") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStep step = random_step(seed, 5);
    for (const int streams : {1, 2, 3}) {
      INFO("seed ", seed, ", ", streams, " streams");
      const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
      REQUIRE(least_makespan(problem) == doctest::Approx(Enumeration(problem).least()));
    }
  }
}

TEST_CASE("the oracle knows that a deliberate wait can pay") {
  StepGraph graph;  // 0 is long and alone; 1 -> 2 -> 3, where 2 needs both cores
  add(graph, {});
  add(graph, {add(graph, {add(graph, {})})});
  const Costs costs = costs_of({{{1, 10}}, {{1, 1}}, {{2, 1}}, {{1, 10}}});
  CHECK(least_makespan(make_problem(graph, costs, 2, 2)) == 12);  // 0 starts at 2, and not at 0, when it could
}

TEST_CASE("critical_path is close to the least makespan on small graphs, and never below it") {
  double sum = 0;
  int problems = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomStep step = random_step(seed, 11, 8);
    for (const int streams : {2, 3, 4}) {
      const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
      const double least = least_makespan(problem);
      const double found = critical_path(problem).makespan;
      INFO("seed ", seed, ", ", streams, " streams");
      REQUIRE(found >= least * (1 - 1e-9));
      REQUIRE(found <= least * 1.15);
      sum += least > 0 ? found / least : 1;
      ++problems;
    }
  }
  CHECK(sum / problems <= 1.03);
}

}  // namespace braid::scheduler::testing
