// What a step may ask of CUDA, and when its inputs move.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "core/cuda/stream_handles.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/trace.h"

namespace braid::testing {
namespace {

using Kind = Call::Kind;

/// Runs a step and returns the calls it made.
std::vector<Call> calls_of_step(Session& session, std::uint64_t seed = 1) {
  recording::clear();
  Step step = session.step();
  random_network(Tensor(random_array({8, 8}, seed)), 1, 30);
  step.run();
  return recording::calls();
}

std::set<std::string> functions_of(const std::vector<Call>& calls) {
  std::set<std::string> functions;
  for (const Call& call : calls) functions.insert(call.function);
  return functions;
}

TEST_CASE("a step neither allocates nor frees nor waits for what is running, once its plan has run") {
  recording::reset();
  Session session({.device = "cuda", .streams = 4, .cuda_graphs = false});
  calls_of_step(session);
  calls_of_step(session);
  calls_of_step(session);  // staging has two slots
  const std::set<std::string> expected{"cudaSetDevice",   "cudaEventSynchronize", "cudaMemcpyAsync",
                                       "cudaEventRecord", "cudaStreamWaitEvent",  "cudaLaunchKernelExC",
                                       "cublasLtMatmul"};
  for (int i = 0; i < 4; ++i) {
    const std::vector<Call> calls = calls_of_step(session);
    CHECK(functions_of(calls) == expected);
    // The host waits for earlier steps alone, before it issues anything of this one.
    bool issuing = false;
    for (const Call& call : calls) {
      CHECK(call.status == 0);
      CHECK_FALSE(call.pageable);
      issuing = issuing || call.kind == Kind::launch;
      CHECK_FALSE((issuing && call.kind == Kind::synchronize));
    }
  }
}

TEST_CASE("a replayed step is one launch, and nothing is allocated or waited for in a capture") {
  recording::reset();
  Session session({.device = "cuda", .streams = 4});
  calls_of_step(session);
  calls_of_step(session);
  const std::vector<Call> third = calls_of_step(session);
  bool capturing = false, captured = false;
  for (const Call& call : third) {
    CHECK(call.status == 0);
    if (call.function == "cudaStreamBeginCapture") {
      CHECK(call.flags == cudaStreamCaptureModeThreadLocal);
      capturing = captured = true;
    }
    if (capturing) {
      CHECK(std::set{Kind::capture, Kind::record, Kind::wait, Kind::launch}.contains(call.kind));
      CHECK(call.graph == 1);
    }
    if (call.function == "cudaStreamEndCapture") capturing = false;
  }
  CHECK(captured);
  const std::set<std::string> expected{"cudaSetDevice",   "cudaEventSynchronize", "cudaMemcpyAsync",
                                       "cudaEventRecord", "cudaStreamWaitEvent",  "cudaGraphLaunch"};
  for (int i = 0; i < 3; ++i) {
    const std::vector<Call> calls = calls_of_step(session);
    CHECK(functions_of(calls) == expected);
    CHECK(std::ranges::count(calls, Kind::graph_launch, &Call::kind) == 1);
  }
}

TEST_CASE("streams and events are made so that they do not synchronise with anything else") {
  recording::reset();
  {
    Session session({.device = "cuda", .streams = 3});
    for (int i = 0; i < 4; ++i) calls_of_step(session);
    recording::clear();
    Session second({.device = "cuda", .streams = 3});
    for (const Call& call : recording::calls()) {
      if (call.kind != Kind::create) continue;
      if (call.function.starts_with("cudaStreamCreate")) CHECK(call.flags == cudaStreamNonBlocking);
      if (call.function.starts_with("cudaEventCreate")) CHECK(call.flags == cudaEventDisableTiming);
    }
  }
  CHECK(recording::mistakes().empty());
  CHECK(recording::alive() == recording::Alive{});
}

TEST_CASE("one thread captures while others allocate and run") {
  recording::reset();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      Session session({.device = "cuda", .streams = 2});
      for (int run = 0; run < 6; ++run) {
        const std::vector<Parameter*> own{&session.add("p", {DType::f32, {64}}, ValueKind::state)};
        Step step = session.step();
        random_network(Tensor(random_array({8, 8}, 1)), 1, 10);
        step.run();
        session.release(own);
      }
      session.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Call& call : recording::calls()) CHECK(call.status == 0);
  CHECK(recording::mistakes().empty());
  CHECK(recording::alive() == recording::Alive{});
}

// The recorded device copies as late as it may, so bytes that arrive although nobody waited have been ordered well.

TEST_CASE("every step finds its own inputs, however late the device is") {
  for (const bool cuda_graphs : {false, true}) {
    for (const int streams : {1, 3}) {
      recording::reset();
      Session session({.device = "cuda", .streams = streams, .cuda_graphs = cuda_graphs});
      for (int run = 0; run < 12; ++run) {
        Step step = session.step();
        Array image = random_array({8, 8}, static_cast<std::uint64_t>(run)), label = random_array({3}, 99);
        const Array expected_image = random_array({8, 8}, static_cast<std::uint64_t>(run)), expected_label = label;
        const Tensor x = Tensor(image).keep(), y = Tensor(label).keep();
        random_network(x, 1, 10);
        relu(y);
        step.run();
        if (run % 5 < 4) continue;  // several steps are on their way
        CHECK(std::ranges::equal(x.array().as<float>(), expected_image.as<float>()));
        CHECK(std::ranges::equal(y.array().as<float>(), expected_label.as<float>()));
      }
    }
  }
}

TEST_CASE("a slot of staging memory is filled again only after the copies out of it, and those after the one into it") {
  recording::reset();
  Session session({.device = "cuda", .streams = 2});
  for (int run = 0; run < 8; ++run) {
    Step step = session.step();
    random_network(Tensor(random_array({8, 8}, 1)), 1, 10);
    step.run();
  }
  const std::vector<Call> calls = recording::calls();
  struct Slot {
    int copied_in = 0, copied_out = 0;
    int consumed = -1;     // the event recorded after the last copy out of it
    bool awaited = false;  // by the host
  };
  std::map<const void*, Slot> slots;  // by device address
  const void* last_slot = nullptr;
  for (const Call& call : calls) {
    if (call.kind == Kind::copy && recording::pinned_block(call.pointers[1].data)) {
      Slot& slot = slots[call.pointers[0].data];
      CHECK((slot.copied_in == 0 || slot.awaited));
      slot = {.copied_in = slot.copied_in + 1, .copied_out = slot.copied_out};
    } else if (call.kind == Kind::copy && slots.contains(call.pointers[1].data)) {
      last_slot = call.pointers[1].data;
      ++slots[last_slot].copied_out;
    } else if (call.kind == Kind::record && last_slot != nullptr) {
      slots[last_slot].consumed = call.event;
      last_slot = nullptr;
    } else if (call.kind == Kind::synchronize) {
      for (auto& [data, slot] : slots) slot.awaited = slot.awaited || (slot.consumed == call.event && call.event >= 0);
    }
  }
  CHECK(slots.size() == 2);
  for (const auto& [data, slot] : slots) {
    CHECK(slot.copied_in == 4);
    CHECK(slot.copied_out == 4);
  }
}

TEST_CASE("at most one step is on its way when the next is prepared") {
  recording::reset();
  Session session({.device = "cuda", .streams = 2});
  std::vector<int> finished;  // events at the ends of steps
  for (int run = 0; run < 6; ++run) {
    const std::vector<Call> calls = calls_of_step(session);
    if (run >= 2) {  // the first synchronisation is with the step before the last
      const auto first = std::ranges::find(calls, Kind::synchronize, &Call::kind);
      REQUIRE(first != calls.end());
      CHECK(first->event == finished[finished.size() - 2]);
    }
    finished.push_back(calls.back().event);
    CHECK(calls.back().kind == Kind::record);
  }
}

TEST_CASE("a measured program tells when each launch ran, in an order that its waits allow") {
  recording::reset();
  const auto backend = make_backend({DeviceType::cuda, 0});
  struct Copy final : Kernel {
    void bind(std::span<void* const>, std::span<void* const>, void*) override {}
    void launch(const LaunchContext& context) override {
      const auto& handles = *static_cast<const cuda::StreamHandles*>(context.native);
      CHECK(cudaMemsetAsync(data, 0, 4, handles.stream) == cudaSuccess);
    }
    void* data = nullptr;
  } kernel;
  const Buffer buffer = backend->allocate(4);
  kernel.data = buffer.data();
  using Do = Instruction::Kind;
  const Program program{.streams = {{{Do::launch, 0, &kernel}, {Do::launch, 1, &kernel}, {Do::record, 0}},
                                    {{Do::launch, 2, &kernel}, {Do::wait, 0}, {Do::launch, 3, &kernel}}},
                        .events = 1};
  const auto streams = backend->make_streams({.count = 2});
  const std::vector<LaunchTime> times = streams->measure(program);
  REQUIRE(times.size() == 4);
  std::map<int, LaunchTime> of;
  for (const LaunchTime& time : times) {
    CHECK(time.finish == doctest::Approx(time.start + 1));
    of[time.index] = time;
  }
  CHECK(of[0].start == doctest::Approx(0));
  CHECK(of[1].start >= of[0].finish - 1e-6);
  CHECK(of[3].start >= of[1].finish - 1e-6);
  CHECK(of[2].start == doctest::Approx(0));
  CHECK(of[3].stream == 1);
}

}  // namespace
}  // namespace braid::testing
