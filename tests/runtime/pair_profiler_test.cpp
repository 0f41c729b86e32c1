#include "runtime/profile/pair_profiler.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "autograd/functions.h"
#include "runtime/profile/profiler.h"
#include "tests/scheduler/random_graph.h"

namespace braid::testing {

using namespace scheduler::testing;

namespace {

DeviceInfo two_cores() { return {.name = "two cores", .capacity = 2, .max_width = 2}; }

/// Sleeps, and longer while the other does.
class HinderedKernel final : public Kernel {
 public:
  HinderedKernel(int milliseconds, int hindered, std::atomic<int>& own, const std::atomic<int>& other)
      : milliseconds_(milliseconds), hindered_(hindered), own_(own), other_(other) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void launch(const LaunchContext&) override {
    own_ = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(other_ == 1 ? hindered_ : milliseconds_));
    own_ = 0;
  }

 private:
  int milliseconds_, hindered_;
  std::atomic<int>& own_;
  const std::atomic<int>& other_;
};

/// Accepts only zeros, as a kernel may that takes labels, and leaves other bytes behind.
class PickyKernel final : public Kernel {
 public:
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    inputs_.assign(inputs.begin(), inputs.end());
    outputs_.assign(outputs.begin(), outputs.end());
  }
  void launch(const LaunchContext&) override {
    for (const void* input : inputs_) {
      const int found = *static_cast<const unsigned char*>(input);
      BRAID_CHECK(found == 0, Error, "[picky] expected 0, got ", found);
    }
    for (void* output : outputs_) *static_cast<unsigned char*>(output) = 255;
  }

 private:
  std::vector<void*> inputs_, outputs_;
};

/// Two branches that a scheduler runs side by side, and a loss.
void record_branches() {
  const Array data(DType::f32, {1024, 256});
  const Tensor x = data;
  const Tensor left = relu(relu(x)), right = relu(x + x);
  cross_entropy(left + right, Array(DType::i32, {1024}));
}

}  // namespace

TEST_CASE("pairs are those that plans run at once, equal kinds once, the longest overlap first") {
  StepGraph graph;  // two branches of two nodes each; the second nodes are of one size
  for (const std::int64_t bytes : {8, 16}) add(graph, {add(graph, {}, bytes)}, 24);
  scheduler::Costs costs;
  for (const double duration : {10, 5, 10, 5}) {
    const scheduler::Cost cost{.duration = duration};
    costs.add({&cost, 1});
  }
  const std::vector<int> one{1}, two{2}, both{2, 2};
  CHECK(overlapping_pairs(graph, costs, two_cores(), one, false).empty());
  const std::vector<NodePair> pairs = overlapping_pairs(graph, costs, two_cores(), two, false);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[0].first == 0);
  CHECK(pairs[0].second == 2);
  CHECK(pairs[0].overlap == 10);
  CHECK(pairs[1].first == 1);
  CHECK(pairs[1].second == 3);
  CHECK(pairs[1].overlap == 5);
  CHECK(overlapping_pairs(graph, costs, two_cores(), both, false)[0].overlap == 20);
}

TEST_CASE("a pair with interference in one direction is measured as such") {
  StepGraph graph;
  add(graph, {});
  add(graph, {});
  std::atomic<int> first_runs = 0, second_runs = 0;
  // So slow that it does not matter if the threads of a busy machine wake up a few milliseconds late.
  HinderedKernel first(8, 32, first_runs, second_runs), second(20, 20, second_runs, first_runs);
  const auto backend = make_backend({}, 2);
  const PairTimer::Factors factors = PairTimer(*backend).time(graph, 0, first, 1, second);
  REQUIRE(factors.first.has_value());
  CHECK(factors.first->samples >= 3);
  CHECK(factors.first->factor > 2);
  REQUIRE(factors.second.has_value());
  CHECK(factors.second->factor < factors.first->factor);
}

TEST_CASE("no timed kernel sees the data that an earlier one left") {
  StepGraph graph;
  add(graph, {add(graph, {})});
  PickyKernel first, second;
  const auto backend = make_backend({}, 2);
  PairTimer timer(*backend);
  timer.time(graph, 0, first, 1, second);
  CHECK_NOTHROW(timer.time(graph, 1, second, 0, first));
}

TEST_CASE("the pairs of a recorded step are measured, up to a number, and the costs that are planned with use them") {
  Session session({.device = "cpu", .streams = 2, .width = 1, .threads = 2});
  if (session.backend().info().capacity < 2) return;  // nothing runs at once
  const Step step = session.step();
  record_branches();
  scheduler::Profile profile{.device = session.backend().info().name, .capacity = 2, .software = ""};
  std::size_t calls = 0, total = 0;
  const std::vector<int> streams{2};
  const auto measure = [&](std::size_t most) {
    calls = 0;
    const auto on_progress = [&](PairProgress progress) {
      CHECK(progress.done == calls++);
      total = progress.total;
    };
    profile_pairs(session, streams, most, on_progress, profile);
  };
  measure(0);
  CHECK(profile.pairs.empty());
  CHECK(calls == 0);
  // On a machine that is busy with something else the two may never run at once.
  for (int attempt = 0; attempt < 20 && profile.pairs.empty(); ++attempt) {
    measure(100);
    CHECK(calls == total);
    REQUIRE(total > 0);
  }
  REQUIRE(!profile.pairs.empty());
  CHECK(profile.wait_microseconds > 0);
  for (const scheduler::PairMeasurement& pair : profile.pairs) {
    CHECK(std::isfinite(pair.factor));
    CHECK(pair.factor > 0);
    CHECK(pair.samples >= 1);
    CHECK(pair.slowed.width == 1);
  }
  const StepGraph graph = with_kept_results(session.tape().graph());
  scheduler::Costs costs = scheduler::analytic_costs(graph, session.backend().info(), std::vector{1});
  CHECK(!interference(profile, graph, costs, 2).empty());
  measure(1);
  CHECK(calls == 1);
}

}  // namespace braid::testing
