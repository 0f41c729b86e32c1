#include "runtime/profile/pair_profiler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/functions.h"
#include "runtime/compile/planner.h"
#include "runtime/profile/profiler.h"
#include "scheduler/check/simulator.h"
#include "tests/scheduler/random_graph.h"

namespace braid::testing {

using namespace scheduler::testing;

namespace {

DeviceInfo two_cores() { return {.name = "two cores", .capacity = 2, .max_width = 2}; }

struct Launched {
  double alone = 0, factor = 1;
};

/// Takes `alone` microseconds by itself, and `factor` times as long while another kernel runs. A launch adds these to
/// what has been launched.
class MadeUpKernel final : public Kernel {
 public:
  MadeUpKernel(double microseconds, double times) : alone_(microseconds), factor_(times) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}
  void launch(const LaunchContext&) override { launched = {launched.alone + alone_, factor_}; }

  static inline Launched launched = {};

 private:
  const double alone_, factor_;
};

/// Two streams that run such kernels in a simulation.
class MadeUpStreams final : public StreamGroup {
 public:
  /// `apart`: how many programs for both streams other programs keep from running at once.
  explicit MadeUpStreams(int apart) : apart_(apart) {}
  int size() const override { return 2; }
  int admit() override { return 0; }
  void upload(std::span<const Upload>) override {}
  using StreamGroup::launch;
  void launch(const Program&) override { FAIL("not called"); }
  void download(std::span<const Download>) override {}
  void synchronize() override {}
  void set_observer(LaunchObserver*) override {}

  RunTimes measure(const Program& program) override {
    scheduler::Plan plan;
    plan.placements.resize(program.kernels.size());
    plan.commands = program.commands;
    auto &first = plan.commands.streams[0], &second = plan.commands.streams[1];
    const bool apart = !first.empty() && !second.empty() && apart_-- > 0;
    if (apart) {
      first.push_back({Command::Kind::record, plan.commands.events});
      const auto launch = std::ranges::find(second, Command::Kind::launch, &Command::kind);
      second.insert(launch, {Command::Kind::wait, plan.commands.events++});
    }
    std::vector<scheduler::Cost> costs(program.kernels.size());
    scheduler::Interference interference;  // all nodes of a stream are of one kind
    std::vector<LaunchTime> times;
    for (const int stream : {0, 1}) {
      for (const auto& [kind, node] : program.commands.streams[stream]) {
        if (kind != Command::Kind::launch) continue;
        MadeUpKernel::launched = {};
        program.kernels[node]->launch({});
        costs[node].duration = MadeUpKernel::launched.alone;
        interference.set_kind(node, 0, stream);
        interference.set_factor(stream, 1 - stream, MadeUpKernel::launched.factor);
        times.push_back({node, stream});
      }
    }
    scheduler::Problem problem =
        scheduler::make_problem(independent(static_cast<int>(costs.size())), choices_of(costs), 2, 2);
    problem.interference = std::move(interference);
    const scheduler::Simulation simulation = simulate(problem, plan);
    for (LaunchTime& time : times) {
      time.start = simulation.runs[time.index].start;
      time.finish = simulation.runs[time.index].finish;
    }
    count_from_first_start(times);
    return {times, "made up"};
  }

 private:
  int apart_;
};

/// The CPU, but for its streams.
class MadeUpDevice final : public Backend {
 public:
  explicit MadeUpDevice(int apart = 0) : apart_(apart) {}
  Device device() const override { return cpu_->device(); }
  const DeviceInfo& info() const override { return cpu_->info(); }
  Buffer allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void clear(void* target, std::size_t bytes) override { cpu_->clear(target, bytes); }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    cpu_->copy_to_device(target, source, bytes);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    cpu_->copy_to_host(target, source, bytes);
  }
  std::unique_ptr<StreamGroup> make_streams(const StreamOptions&) override {
    return std::make_unique<MadeUpStreams>(apart_);
  }

 private:
  const std::unique_ptr<Backend> cpu_ = make_backend({}, 1);
  const int apart_;
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
  const scheduler::Costs costs = choices_of({{.duration = 10}, {.duration = 5}, {.duration = 10}, {.duration = 5}});
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

TEST_CASE("a pair with interference in one direction is measured as such, also if it often runs one after the other") {
  const StepGraph graph = independent(2);
  MadeUpKernel first(800, 4), second(3200, 1);
  for (const int apart : {0, 1, 7}) {  // out of eight rounds
    CAPTURE(apart);
    MadeUpDevice device(apart);
    PairTimer timer(device);
    const PairTimer::Factors factors = timer.time(graph, 0, first, 1, second);
    CHECK(timer.clock() == "made up");
    REQUIRE(factors.first.has_value());
    CHECK(factors.first->factor == doctest::Approx(4));
    REQUIRE(factors.second.has_value());
    CHECK(factors.second->factor == doctest::Approx(1));
    const int together = std::max(1, 3 - apart);
    CHECK(factors.first->samples == 3 * together);  // the second takes as long as three of the first
    CHECK(factors.second->samples == 3 * together);
  }
}

TEST_CASE("short kernels are timed in bursts, which clocks can tell apart") {
  const StepGraph graph = independent(2);
  MadeUpKernel first(5, 3), second(20, 1);
  MadeUpDevice device;
  const PairTimer::Factors factors = PairTimer(device).time(graph, 0, first, 1, second);
  REQUIRE(factors.first.has_value());
  CHECK(factors.first->factor == doctest::Approx(3));
  REQUIRE(factors.second.has_value());
  CHECK(factors.second->factor == doctest::Approx(1));
  CHECK(factors.second->samples < 3 * 2000 / 50);  // of 2 ms, three times
}

TEST_CASE("a kernel that runs alone for most of its time gets no factor") {
  const StepGraph graph = independent(2);
  MadeUpKernel brief(1, 2), endless(1e6, 2);
  MadeUpDevice device, apart(8);
  const PairTimer::Factors factors = PairTimer(device).time(graph, 0, brief, 1, endless);
  REQUIRE(factors.first.has_value());
  CHECK(factors.first->factor == doctest::Approx(2));
  CHECK_FALSE(factors.second.has_value());
  const PairTimer::Factors none = PairTimer(apart).time(graph, 0, brief, 1, brief);
  CHECK_FALSE(none.first.has_value());
  CHECK_FALSE(none.second.has_value());
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
  Session session({.device = "cpu", .streams = 2, .intra_op_threads = 1, .threads = 2});
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
  const StepGraph graph = as_planned(session.tape().graph(), session.backend().info()).graph;
  scheduler::Costs costs = scheduler::analytic_costs(graph, session.backend().info(), std::vector{1});
  CHECK(!interference(profile, graph, costs, 2).empty());
  measure(1);
  CHECK(calls == 1);
}

}  // namespace braid::testing
