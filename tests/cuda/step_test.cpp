// What a step may ask of CUDA, and when its inputs move.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "core/device/cuda/stream_handles.h"
#include "ops/kernels/kernels.h"
#include "scheduler/costs/known_devices.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/sequence/operations.h"
#include "tests/cuda/sequence/trace.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

using CallKind = Call::Kind;
using scheduler::testing::Operation;
using scheduler::testing::OperationOrder;

/// Runs a step and returns the calls it made.
std::vector<Call> calls_of_step(Session& session, std::uint64_t seed = 1) {
  recording::clear();
  Step step = session.step();
  random_network(Tensor(noise({8, 8}, seed)), 1, 30);
  step.run();
  return recording::calls();
}

std::set<std::string> functions_of(const std::vector<Call>& calls) {
  std::set<std::string> functions;
  for (const Call& call : calls) functions.insert(call.function);
  return functions;
}

TEST_CASE("a product of batches is one call of cuBLASLt, which sees all matrices of its operands") {
  const FreshDevice world;
  Session session({.device = "cuda", .streams = 1});
  const auto operands = [&](const Shape& a, const Shape& b, const MatmulOptions& options) {
    recording::clear();
    Step step = session.step();
    matmul(noise(a, 1), noise(b, 2), options);
    step.run();
    session.synchronize();
    std::vector<std::size_t> bytes;
    for (const Call& call : recording::calls()) {
      if (call.kernel != "cublasLt") continue;
      for (const recording::Bytes& operand : call.pointers) bytes.push_back(operand.bytes / sizeof(float));
    }
    return bytes;
  };
  using Sizes = std::vector<std::size_t>;  // cuBLASLt's first operand is the second matrix; c is d
  CHECK(operands({2, 3, 4, 5}, {2, 3, 5, 7}, {}) == Sizes{210, 120, 168, 168});
  CHECK(operands({6, 5, 4}, {6, 7, 5}, {true, true}) == Sizes{210, 120, 168, 168});
  CHECK(operands({4, 5}, {6, 5, 7}, {}) == Sizes{210, 20, 168, 168});
  CHECK(operands({6, 4, 5}, {5, 7}, {}) == Sizes{35, 120, 168, 168});
}

TEST_CASE("a device can be described to plan for it elsewhere") {
  recording::reset();
  Session session({.device = "cuda"});
  DeviceInfo info = session.backend().info();
  info.properties = device_properties(session.device());
  const DeviceInfo known = scheduler::known_device("h200"),
                   read = scheduler::device_from_json(scheduler::to_json(info));
  const auto letters = [](std::string text) {  // keys may come in any order
    std::ranges::sort(text);
    return text;
  };
  CHECK(letters(read.properties) == letters(scheduler::device_from_json(scheduler::to_json(known)).properties));
  CHECK(read.capacity == known.capacity);
  CHECK(info.threads_per_unit == known.threads_per_unit);
  CHECK(info.shared_bytes_per_unit == known.shared_bytes_per_unit);
  CHECK(read.oversubscribes);
}

TEST_CASE("every stream has counters of its own for the blocks of a kernel, which are zero") {
  recording::reset();
  Session session({.device = "cuda", .streams = 3});
  calls_of_step(session);
  session.synchronize();
  int streams = 0;
  for (const recording::Bytes& block : recording::device_blocks()) {
    if (block.bytes != sizeof(unsigned) * cuda::kArrivalCounters) continue;
    const auto* counters = static_cast<const unsigned*>(block.data);
    CHECK(std::count(counters, counters + cuda::kArrivalCounters, 0u) == cuda::kArrivalCounters);
    ++streams;
  }
  CHECK(streams == 3);
}

TEST_CASE("once its plan has run, a step neither allocates nor frees nor waits for running work") {
  recording::reset();
  Session session({.device = "cuda", .streams = 4, .cuda_graphs = false});
  calls_of_step(session);
  calls_of_step(session);
  calls_of_step(session);  // staging has two slots
  const std::set<std::string> expected{"cudaSetDevice",   "cudaEventSynchronize", "cudaMemcpyAsync",
                                       "cudaEventRecord", "cudaStreamWaitEvent",  "cudaLaunchKernelEx",
                                       "cublasLtMatmul"};
  for (int i = 0; i < 4; ++i) {
    const std::vector<Call> calls = calls_of_step(session);
    CHECK(functions_of(calls) == expected);
    // The host waits for earlier steps alone, before it issues anything of this one.
    bool issuing = false;
    for (const Call& call : calls) {
      CHECK(call.status == 0);
      CHECK_FALSE(call.pageable);
      issuing = issuing || call.kind == CallKind::launch;
      CHECK_FALSE((issuing && call.kind == CallKind::synchronize));
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
      const bool is_query = call.function == "cudaStreamIsCapturing";
      const std::set allowed{CallKind::capture, CallKind::record, CallKind::wait, CallKind::launch};
      CHECK((is_query || allowed.contains(call.kind)));
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
    CHECK(std::ranges::count(calls, CallKind::graph_launch, &Call::kind) == 1);
  }
}

TEST_CASE("streams and events are made so that they do not synchronise with anything else") {
  const FreshDevice world;
  Session session({.device = "cuda", .streams = 3});
  for (int i = 0; i < 4; ++i) calls_of_step(session);
  recording::clear();
  Session second({.device = "cuda", .streams = 3});
  for (const Call& call : recording::calls()) {
    if (call.kind != CallKind::create) continue;
    if (call.function.starts_with("cudaStreamCreate")) CHECK(call.flags == cudaStreamNonBlocking);
    if (call.function.starts_with("cudaEventCreate")) CHECK(call.flags == cudaEventDisableTiming);
  }
}

TEST_CASE("one thread captures while others allocate and run") {
  const FreshDevice world;
  const auto train = [] {
    Session session({.device = "cuda", .streams = 2});
    for (int run = 0; run < 6; ++run) {
      const std::vector<Parameter*> own{&session.add("p", {DType::f32, {64}}, ValueKind::state)};
      Step step = session.step();
      random_network(Tensor(noise({8, 8}, 1)), 1, 10);
      step.run();
      session.release(own);
    }
    session.synchronize();
  };
  std::vector<std::future<void>> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(std::async(std::launch::async, train));
  for (auto& session : sessions) CHECK_NOTHROW(session.get());
  // A session that ends may break a capture of another, which is then made again.
}

TEST_CASE("plans are compared by what their replays take, not by single launches and captures") {
  recording::reset();
  Session session({.device = "cuda"});
  // A replay takes a millisecond, and so does every launch outside of one: serial plans have as many of these.
  std::size_t seen = 0;
  std::chrono::steady_clock::time_point now;
  session.set_clock([&] {
    const std::vector<Call> calls = recording::calls();
    for (; seen < calls.size(); ++seen) {
      const bool launches = calls[seen].kind == Call::Kind::launch && calls[seen].graph == 0;
      if (launches || calls[seen].kind == Call::Kind::graph_launch) now += std::chrono::milliseconds(1);
    }
    return now;
  });
  int steps = 0;
  do {
    Step step = session.step();
    for (int chain = 0; chain < 2; ++chain) {
      Tensor y = Array(DType::f32, {64, 256});
      for (int i = 0; i < 5; ++i) y = linear(y, Array(DType::f32, {256, 256}));
    }
    step.run();
    REQUIRE(++steps < 300);
  } while (session.choosing());
  const std::string report = session.choice_report();
  CAPTURE(report);
  CHECK(report.starts_with("serial: 1.00 ms; "));
  CHECK(report.find("1.000 (1.000 to 1.000)") != std::string::npos);
  CHECK(report.ends_with("kept serial, as no other saves enough"));
}

// The recorded device copies as late as it may, so bytes that arrive without a wait of the host have been ordered
// correctly.

TEST_CASE("every step finds its own inputs, however late the device is") {
  for (const bool cuda_graphs : {false, true}) {
    for (const int streams : {1, 3}) {
      recording::reset();
      Session session({.device = "cuda", .streams = streams, .cuda_graphs = cuda_graphs});
      for (int run = 0; run < 12; ++run) {
        Step step = session.step();
        Array image = noise({8, 8}, static_cast<std::uint64_t>(run)), label = noise({3}, 99);
        const Array expected_image = noise({8, 8}, static_cast<std::uint64_t>(run)), expected_label = label;
        const Tensor x = Tensor(image).keep(), y = Tensor(label).keep();
        random_network(x, 1, 10);
        relu(y);
        step.run();
        if (run % 5 < 4) continue;  // several steps are in flight
        CHECK(std::ranges::equal(x.array().as<float>(), expected_image.as<float>()));
        CHECK(std::ranges::equal(y.array().as<float>(), expected_label.as<float>()));
      }
    }
  }
}

TEST_CASE("prefetched inputs arrive, whichever of them the next step takes") {
  const FreshDevice world;
  Session session({.device = "cuda", .streams = 2});
  Array next = noise({8, 8}, 0);
  for (std::uint64_t run = 0; run < 12; ++run) {
    Step step = session.step();
    const Array image = next, label = noise({3}, 100 + run);
    const Tensor x = Tensor(image).keep(), y = Tensor(label).keep();
    random_network(x, 1, 10);
    relu(y);
    recording::clear();
    step.run();
    const auto calls = recording::calls();
    const auto uploaded = std::ranges::count_if(calls, [](const Call& call) {
      return call.kind == CallKind::copy && recording::pinned_block(call.pointers[1].data);
    });
    CHECK(uploaded == 1);  // what was not prefetched: the label, or in some steps both in one
    next = noise({8, 8}, run + 1);
    const Array other = noise({8, 8}, 50);
    switch (run % 4) {
      case 0: session.prefetch(std::vector{next}); break;
      case 1: session.prefetch(std::vector{other}); break;        // not taken by any step
      case 2: session.prefetch(std::vector{other, next}); break;  // one of them is taken
      default: session.prefetch({}); break;
    }
    CHECK(std::ranges::equal(x.array().as<float>(), image.as<float>()));
    CHECK(std::ranges::equal(y.array().as<float>(), label.as<float>()));
  }
}

/// A log without captures as operations, one for each call; what is in no stream is of the host.
std::vector<Operation> operations_of(const std::vector<Call>& calls) {
  std::vector<Operation> operations;
  for (const Call& call : calls) {
    auto kind = Operation::Kind::work;
    if (call.kind == CallKind::record) kind = Operation::Kind::record;
    if (call.kind == CallKind::wait) kind = Operation::Kind::wait;
    operations.push_back({.kind = kind, .queue = call.stream + 1, .name = call.function, .event = call.event});
  }
  return operations;
}

TEST_CASE("the remains of a failed step finish before the next step starts") {
  recording::reset();
  Session session({.device = "cuda", .streams = 4, .cuda_graphs = false});
  const std::vector<int> ids = program_streams(recording::calls());
  calls_of_step(session);
  for (int after = 1; after < 8; ++after) {
    recording::fail_next("cudaLaunchKernelEx", cudaErrorInvalidValue, after);
    CHECK_THROWS_AS(calls_of_step(session), DeviceError);
    std::vector<Call> calls = recording::calls();
    const std::size_t end = calls.size();
    const std::vector<Call> next = calls_of_step(session);
    calls.insert(calls.end(), next.begin(), next.end());
    const OperationOrder order(operations_of(calls));
    const auto is_work = [&](const Call& call) {
      const bool works = call.kind == CallKind::launch || call.kind == CallKind::copy || call.kind == CallKind::fill;
      return works && call.status == 0 && std::ranges::find(ids, call.stream) != ids.end();
    };
    for (std::size_t a = 0; a < end; ++a) {
      for (std::size_t b = end; b < calls.size(); ++b) {
        if (is_work(calls[a]) && is_work(calls[b])) CHECK(order.before(a, b));
      }
    }
  }
}

TEST_CASE("at most one step is running when the next is prepared") {
  recording::reset();
  Session session({.device = "cuda", .streams = 2});
  std::vector<int> finished;  // events at the ends of steps
  for (int run = 0; run < 6; ++run) {
    const std::vector<Call> calls = calls_of_step(session);
    if (run >= 2) {  // the first synchronisation is with the step before the last
      const auto first = std::ranges::find(calls, CallKind::synchronize, &Call::kind);
      REQUIRE(first != calls.end());
      CHECK(first->event == finished[finished.size() - 2]);
    }
    finished.push_back(calls.back().event);
    CHECK(calls.back().kind == CallKind::record);
  }
}

TEST_CASE("memory starts as zeros, whatever it held before") {
  recording::reset();
  const auto backend = make_backend({DeviceType::cuda, 0});
  const Buffer buffer = backend->allocate(1000);
  std::vector<unsigned char> bytes(1000, 1);
  backend->copy_to_host(bytes.data(), buffer.data(), bytes.size());
  CHECK(std::ranges::count(bytes, 0) == 1000);
  CHECK(backend->allocate(0).data() != nullptr);
}

TEST_CASE("a data error in a kernel is thrown once, at the next synchronisation") {
  recording::reset();
  TestKernel kernel([](const LaunchContext& context) {
    *static_cast<const cuda::StreamHandles*>(context.native)->fault = {cuda::DataFault::kLabel, 12, 10};
  });
  const auto backend = make_backend({DeviceType::cuda, 0});
  const auto streams = backend->make_streams({.count = 2});
  const TestProgram program({{}, {testing::launch(kernel)}});
  streams->launch(program);
  CHECK_THROWS_WITH_AS(streams->synchronize(), doctest::Contains("expected labels in [0, 10), got 12"), DataError);
  CHECK_NOTHROW(streams->synchronize());
  streams->launch(program);
  CHECK_THROWS_AS(streams->admit(), DataError);
}

TEST_CASE("a program that waits for what is never recorded, or wants more streams than there are, is refused") {
  const FreshDevice world;
  const auto backend = make_backend({DeviceType::cuda, 0});
  const auto streams = backend->make_streams({.count = 2});
  CHECK_THROWS_AS(streams->launch(TestProgram({{testing::wait(0)}, {}}, 1)), Error);
  CHECK_THROWS_AS(streams->capture(TestProgram({{testing::wait(0)}, {}}, 1)), Error);
  CHECK_THROWS_AS(streams->launch(TestProgram(std::vector<std::vector<Instruction>>(3))), Error);
  CHECK_NOTHROW(streams->launch(TestProgram(std::vector<std::vector<Instruction>>(2))));
  CHECK_NOTHROW(streams->synchronize());
}

TEST_CASE("a measured program tells when each launch ran, in an order that its waits allow") {
  recording::reset();
  const auto backend = make_backend({DeviceType::cuda, 0});
  const Buffer buffer = backend->allocate(4);
  TestKernel kernel([&](const LaunchContext& context) {
    const auto& handles = *static_cast<const cuda::StreamHandles*>(context.native);
    CHECK(cudaMemsetAsync(buffer.data(), 0, 4, handles.stream) == cudaSuccess);
  });
  const TestProgram program({{testing::launch(kernel, 0), testing::launch(kernel, 1), testing::record(0)},
                             {testing::launch(kernel, 2), testing::wait(0), testing::launch(kernel, 3)}},
                            1);
  const auto streams = backend->make_streams({.count = 2});
  for (const bool captured : {true, false}) {
    if (!captured) recording::fail_next("cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported);
    const auto [times, clock] = streams->measure(program);
    CHECK(clock == (captured ? "graph replay" : "events"));
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
}

}  // namespace
}  // namespace braid::testing
