#include "core/device/cpu/stream_group.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

#include "core/base/error.h"
#include "core/base/random.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

TEST_CASE("a fault is parked, later kernels are skipped, other streams do not hang, and the group stays usable") {
  std::atomic<int> ran = 0;
  TestKernel fail([] { throw DataError("broken"); });
  TestKernel count([&] { ++ran; });
  const TestProgram faulty({{launch(fail), launch(count), record(0)}, {wait(0), launch(count)}}, 1);
  cpu::CpuStreamGroup streams(2);
  streams.launch(faulty);
  CHECK_THROWS_WITH_AS(streams.synchronize(), "broken", DataError);
  CHECK(ran == 0);
  streams.synchronize();  // the fault is reported once

  const TestProgram healthy({{launch(count), record(0)}, {wait(0), launch(count)}}, 1);
  streams.launch(healthy);
  streams.synchronize();
  CHECK(ran == 2);
}

TEST_CASE("of several faults the first launched program's is thrown") {
  TestKernel one([] { throw Error("one"); }), two([] { throw Error("two"); });
  const TestProgram first({{launch(one)}}), second({{launch(two)}});
  cpu::CpuStreamGroup streams(1);
  streams.launch(first);
  streams.launch(second);
  CHECK_THROWS_WITH(streams.synchronize(), "one");
}

TEST_CASE("destruction at any time finishes what was launched") {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ran = 0;
    TestKernel count([&] { ++ran; });
    const TestProgram program({{launch(count)}, {launch(count)}, {launch(count)}});
    {
      cpu::CpuStreamGroup streams(3);
      const int launches = round % 4;
      for (int i = 0; i < launches; ++i) streams.launch(program);
    }
    CHECK(ran == 3 * (round % 4));
  }
}

TEST_CASE("a program may use fewer streams than there are, and not more") {
  TestKernel nothing([] {});
  const TestProgram one({{launch(nothing)}});
  const TestProgram three({{}, {}, {launch(nothing)}});
  cpu::CpuStreamGroup streams(2);
  streams.launch(one);
  streams.synchronize();
  CHECK_THROWS_AS(streams.launch(three), Error);
  CHECK_THROWS_AS(cpu::CpuStreamGroup(0), DeviceError);
}

TEST_CASE("programs have their turns also where streams are without work in them") {
  for (int round = 0; round < 50; ++round) {
    std::vector<int> order;
    std::vector<std::unique_ptr<TestKernel>> kernels;
    for (int i = 0; i < 4; ++i) {
      kernels.push_back(std::make_unique<TestKernel>([&order, i] {
        if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        order.push_back(i);  // no other kernel runs meanwhile
      }));
    }
    const TestProgram nothing, empty({{}, {}, {}}), last({{}, {}, {launch(*kernels[0])}}),
        middle({{}, {launch(*kernels[1])}}), first({{launch(*kernels[2])}}), again({{}, {}, {launch(*kernels[3])}});
    {
      cpu::CpuStreamGroup streams(3);
      for (const TestProgram* program : {&nothing, &last, &middle, &empty, &first, &again, &nothing})
        streams.launch(*program);
      if (round % 2 == 0) streams.synchronize();
    }
    CHECK(order == std::vector{0, 1, 2, 3});
  }
}

TEST_CASE("programs with more and more events can be launched without a pause") {
  cpu::CpuStreamGroup streams(2);
  std::atomic<int> ran = 0;
  TestKernel count([&] { ++ran; });
  std::deque<TestProgram> programs;
  for (int events = 1; events <= 20; ++events) {
    std::vector<std::vector<Instruction>> lists(2);
    for (int event = 0; event < events; ++event) {
      lists[static_cast<std::size_t>(event % 2)].push_back(record(event));
      lists[static_cast<std::size_t>((event + 1) % 2)].push_back(wait(event));
      lists[static_cast<std::size_t>((event + 1) % 2)].push_back(launch(count));
    }
    programs.emplace_back(lists, events);
  }
  for (const TestProgram& program : programs) streams.launch(program);
  streams.synchronize();
  CHECK(ran == 20 * 21 / 2);
}

TEST_CASE("an observer sees every launch with its stream and index") {
  struct Recorder final : LaunchObserver {
    std::atomic<int> before = 0, after = 0, sum = 0;
    void before_launch(int stream, std::int32_t index) override {
      ++before;
      sum += stream * 100 + index;
    }
    void after_launch(int, std::int32_t) override { ++after; }
  } recorder;
  TestKernel nothing([] {});
  const TestProgram program({{launch(nothing, 1), launch(nothing, 2)}, {launch(nothing, 3)}});
  TestProgram brief({{launch(nothing, 4)}});
  brief.make_brief();
  cpu::CpuStreamGroup streams(2);
  streams.set_observer(&recorder);
  streams.launch(program);
  streams.launch(brief);
  streams.synchronize();
  CHECK(recorder.before == 4);
  CHECK(recorder.after == 4);
  CHECK(recorder.sum == 110);
}

TEST_CASE("measuring tells when each launch ran, in the order of their starts") {
  TestKernel slow([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  TestKernel quick([] {});
  const TestProgram program({{launch(slow, 7), record(0)}, {wait(0), launch(quick, 4)}}, 1);
  cpu::CpuStreamGroup streams(2);
  const auto [times, clock] = streams.measure(program);
  CHECK(clock == "host clock");
  REQUIRE(times.size() == 2);
  CHECK(times[0].index == 7);
  CHECK(times[0].stream == 0);
  CHECK(times[0].start == 0);
  CHECK(times[0].finish >= 5000);
  CHECK(times[1].index == 4);
  CHECK(times[1].stream == 1);
  CHECK(times[1].start >= times[0].finish);
  CHECK(times[1].finish >= times[1].start);
}

TEST_CASE("a fault while measuring is thrown and leaves the streams usable") {
  TestKernel broken([] { throw Error("broken"); });
  TestKernel quick([] {});
  cpu::CpuStreamGroup streams(1);
  CHECK_THROWS_WITH_AS(streams.measure(TestProgram({{launch(broken)}})), "broken", Error);
  CHECK(streams.measure(TestProgram({{launch(quick)}})).launches.size() == 1);
}

TEST_CASE(
    "a brief program of one stream has run, in the same thread, when launch() returns, unless another is running") {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  TestKernel note([&] { threads.push_back(std::this_thread::get_id()); });
  TestKernel first([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    order.push_back(1);
  });
  TestKernel second([&] { order.push_back(2); });
  TestProgram longer({{launch(note)}}), slow({{launch(first)}}), brief({{launch(note), record(0)}}, 1),
      elsewhere({{}, {launch(note)}}), next({{launch(second)}});
  for (TestProgram* program : {&brief, &elsewhere, &next}) program->make_brief();
  cpu::CpuStreamGroup streams(2);
  for (int i = 0; i < 100; ++i) {
    threads.clear();
    streams.launch(brief);
    CHECK(threads == std::vector{std::this_thread::get_id()});
    for (const TestProgram* program : {&longer, &elsewhere}) {
      streams.launch(*program);
      streams.synchronize();
    }
    REQUIRE(threads.size() == 3);
    CHECK(threads[1] != threads[0]);
    CHECK(threads[2] != threads[0]);
    CHECK(threads[2] != threads[1]);
  }
  streams.launch(slow);
  streams.launch(next);
  streams.synchronize();
  CHECK(order == std::vector{1, 2});
}

TEST_CASE("a fault of a brief program is thrown at the next synchronisation") {
  std::atomic<int> ran = 0;
  TestKernel fail([] { throw DataError("broken"); });
  TestKernel count([&] { ++ran; });
  TestProgram faulty({{launch(fail), launch(count)}}), healthy({{launch(count)}});
  for (TestProgram* program : {&faulty, &healthy}) program->make_brief();
  cpu::CpuStreamGroup streams(1);
  streams.launch(faulty);
  streams.launch(healthy);
  CHECK(ran == 1);
  CHECK_THROWS_WITH_AS(streams.synchronize(), "broken", DataError);
  streams.synchronize();  // the fault is reported once
}

TEST_CASE("an upload arrives after what runs and before what is launched next") {
  int value = 0;
  std::vector<int> seen;
  TestKernel read([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    seen.push_back(value);
  });
  const TestProgram program({{launch(read)}});
  cpu::CpuStreamGroup streams(1);
  for (int step = 1; step <= 3; ++step) {
    const Upload upload{&value, &step, sizeof step};
    streams.upload(std::span(&upload, 1));
    streams.launch(program);
  }
  streams.synchronize();
  CHECK(seen == std::vector{1, 2, 3});
}

TEST_CASE("random programs with random delays keep the order that their events ask for, step after step") {
  // A grid of nodes, each after one node of the previous row, and all of a step after all of the step before.
  constexpr int kStreams = 4, kRows = 12, kSteps = 3;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Generator generator(seed);
    std::vector<int> finished(kStreams * kRows, 0);  // how often
    std::deque<TestKernel> kernels;
    std::atomic<int> all_finished = 0, violations = 0;
    std::vector<std::vector<Instruction>> lists(kStreams);
    for (int row = 0; row < kRows; ++row) {
      for (int stream = 0; stream < kStreams; ++stream) {
        const int other = static_cast<int>(generator.below(kStreams));
        const int before = (row - 1) * kStreams + other;
        const int self = row * kStreams + stream;
        const auto delay = std::chrono::microseconds(generator.below(100));
        kernels.emplace_back([&finished, &all_finished, &violations, before, self, delay] {
          int& steps = finished[static_cast<std::size_t>(self)];
          if (before >= 0 && finished[static_cast<std::size_t>(before)] != steps + 1) ++violations;
          if (all_finished.load(std::memory_order_relaxed) < steps * kStreams * kRows) ++violations;
          std::this_thread::sleep_for(delay);
          ++steps;
          all_finished.fetch_add(1, std::memory_order_relaxed);
        });
        auto& list = lists[static_cast<std::size_t>(stream)];
        if (row > 0 && other != stream) list.push_back(wait(before));
        list.push_back(launch(kernels.back()));
        list.push_back(record(self));
      }
    }
    const TestProgram program(lists, kStreams * kRows);
    cpu::CpuStreamGroup streams(kStreams);
    for (int step = 0; step < kSteps; ++step) streams.launch(program);
    streams.synchronize();
    CHECK(violations == 0);
    CHECK(all_finished == kSteps * kStreams * kRows);
  }
}

}  // namespace
}  // namespace braid::testing
