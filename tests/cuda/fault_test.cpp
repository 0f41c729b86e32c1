// Whatever CUDA refuses becomes an error that a user can act on, and the session stays usable.

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/device/cuda/check.h"
#include "ops/kernels/kernels.h"
#include "ops/matmul/linear.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/sequence/trace.h"
#include "tests/error_of.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

/// Runs a step, waits for it, and reads what it was given.
void run_step(Session& session, std::int64_t size = 8) {
  Step step = session.step();
  const Array image = noise({size, size}, 3);
  const Tensor x = Tensor(image).keep();
  random_network(x, 2, 20);
  step.run();
  const Array back = x.array();
  CHECK(std::ranges::equal(back.as<float>(), image.as<float>()));
}

/// The message of a step that fails.
template <class E = DeviceError>
std::string failure(Session& session, std::int64_t size = 8) {
  return error_of<E>([&] { run_step(session, size); });
}

/// A session on a new device, which it must leave clean.
struct Fixture : FreshDevice {
  explicit Fixture(const SessionOptions& options = {.device = "cuda", .streams = 3}) : session(options) {}
  ~Fixture() { CHECK(recording::faults_pending() == 0); }
  Session session;
};

TEST_CASE("the reason for a missing GPU is reported") {
  recording::reset();
  recording::set_driver(0);
  CHECK_THROWS_WITH_AS(Session({.device = "cuda"}),
                       doctest::Contains("no NVIDIA driver was found on this machine. Use device 'cpu'"), DeviceError);
  recording::set_driver(12040);
  CHECK_THROWS_WITH_AS(Session({.device = "cuda"}),
                       doctest::Contains("the driver knows CUDA 12.4, this build needs 13.0"), DeviceError);
  recording::set_driver(13000);
  recording::set_devices(0);
  CHECK_THROWS_AS(Session({.device = "cuda"}), DeviceError);
  CHECK(Session({.device = "auto"}).device().type == DeviceType::cpu);
  recording::set_devices(1);
  CHECK_THROWS_WITH_AS(Session({.device = "cuda:1"}), doctest::Contains("[cuda:1] there are 1 GPUs"), DeviceError);
  CHECK(Session({.device = "auto"}).device().type == DeviceType::cuda);
}

TEST_CASE("a device that reports no clock is taken for a usual one") {
  recording::reset();
  const double usual = make_backend({DeviceType::cuda, 0})->info().flops_per_unit;
  recording::fail_next("a clock rate", 1);
  const DeviceInfo info = make_backend({DeviceType::cuda, 0})->info();
  CHECK(info.flops_per_unit > usual / 4);
  CHECK(info.flops_per_unit < 4 * usual);
}

TEST_CASE("a partition of the SMs needs a driver that knows green contexts, and enough SMs") {
  const FreshDevice world;
  const auto backend = make_backend({DeviceType::cuda, 0});
  recording::fail_next("cudaGetDriverEntryPointByVersion", cudaErrorSymbolNotFound, 3);
  CHECK_THROWS_WITH_AS(backend->make_streams({.count = 2, .partition = {64, 64}}), doctest::Contains("green contexts"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(backend->make_streams({.partition = {64, 64, 8}}),
                       doctest::Contains("a stream requests 8 SMs, but 0 of 132 are left"), DeviceError);
  recording::fail_next("cuDevSmResourceSplitByCount", CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 1);
  CHECK_THROWS_WITH_AS(backend->make_streams({.partition = {64, 64}}),
                       doctest::Contains("[cuda] cuDevSmResourceSplitByCount failed: invalid resource configuration"),
                       DeviceError);
  for (const std::string function :
       {"cuGreenCtxCreate", "cuCtxSetCurrent", "cudnnCreate", "cudaStreamCreateWithPriority"}) {
    recording::fail_next(function, CUDA_ERROR_OUT_OF_MEMORY, function == "cuCtxSetCurrent" ? 0 : 1);
    CHECK_THROWS_AS(backend->make_streams({.partition = {64, 64}}), DeviceError);
  }
  CHECK(recording::faults_pending() == 0);
}

TEST_CASE(
    "a step on a partition whose context cannot be made current names the call, and a lost device if it is lost") {
  Fixture fixture({.device = "cuda", .partition = {64, 64}, .cuda_graphs = false});
  run_step(fixture.session);
  recording::fail_next("cuCtxSetCurrent", CUDA_ERROR_INVALID_CONTEXT);
  CHECK(failure(fixture.session) ==
        "[cuda] cuCtxSetCurrent failed: invalid device context (cudaErrorDeviceUninitialized)");
  recording::fail_next("cuCtxSetCurrent", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(contains(failure<DeviceLost>(fixture.session), "cuCtxSetCurrent failed: an illegal memory access"));
  run_step(fixture.session);
}

TEST_CASE("every call that a session begins with may fail, and leaves nothing behind") {
  for (const std::string function : {"cudaSetDevice", "cudaStreamSynchronize", "cudaStreamCreateWithFlags",
                                     "cudaStreamCreateWithPriority", "cudaEventCreateWithFlags", "cudaHostAlloc"}) {
    for (int after = 0; after < 3; ++after) {
      CAPTURE(function);
      CAPTURE(after);
      const FreshDevice world;
      recording::fail_next(function, cudaErrorNotSupported, after);
      const std::string error = error_of<DeviceError>([&] {
        Session session({.device = "cuda", .streams = 3});
        run_step(session);  // it was only asked how the device is, or makes fewer such calls
      });
      if (!error.empty()) CHECK(contains(error, message("[cuda] ", function, " failed: operation not supported")));
    }
  }
  const FreshDevice world;
  recording::fail_next("cudnnCreate", CUDNN_STATUS_ALLOC_FAILED, 1);
  CHECK_THROWS_WITH_AS(Session({.device = "cuda", .partition = {64, 64}}),
                       doctest::Contains("[cudnn] cudnnCreate failed"), DeviceError);
  recording::fail_next("cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, 1);
  CHECK_THROWS_WITH_AS(Session({.device = "cuda", .partition = {64, 64}}),
                       doctest::Contains("[cublas] cublasLtCreate failed"), DeviceError);
}

TEST_CASE_FIXTURE(Fixture, "a parameter that does not fit is an error with the bytes needed and free") {
  recording::set_memory(1 << 20);
  CHECK_THROWS_WITH_AS(session.add("w", {DType::f32, {1024, 1024}}, ValueKind::parameter),
                       doctest::Contains("[cuda:0] out of memory: needed 4194304 bytes, "), OutOfMemory);
  recording::set_memory(std::size_t{1} << 36);
  CHECK(session.add("v", {DType::f32, {1024, 1024}}, ValueKind::parameter).data() != nullptr);
  run_step(session);
}

TEST_CASE_FIXTURE(Fixture, "an arena that does not fit is out of memory, and a smaller step still runs") {
  recording::set_memory(std::size_t{200} << 20);
  run_step(session);
  const std::string text = failure<OutOfMemory>(session, 4096);
  CHECK(contains(text, "out of memory"));
  CHECK(contains(text, "209715200"));
  run_step(session);
  recording::set_memory(std::size_t{64} << 30);
  run_step(session, 4096);
}

TEST_CASE_FIXTURE(Fixture, "a failed allocation of staging memory fails the step, and the next step gets the memory") {
  recording::fail_next("cudaHostAlloc", cudaErrorMemoryAllocation);
  CHECK(contains(failure(session), "[cuda] cudaHostAlloc failed: out of memory"));
  run_step(session);
  run_step(session);
  recording::fail_next("cudaMalloc", cudaErrorMemoryAllocation, 1);  // after the arena's
  CHECK(contains(failure(session, 64), "out of memory"));
  run_step(session, 64);
  run_step(session, 64);
}

TEST_CASE_FIXTURE(Fixture, "any call that fails is an error of its step, and the next step runs") {
  run_step(session);
  run_step(session);
  run_step(session);
  run_step(session, 16);  // not captured yet
  for (const std::string function : {"cudaSetDevice", "cudaEventSynchronize", "cudaMemcpyAsync", "cudaEventRecord",
                                     "cudaStreamWaitEvent", "cudaLaunchKernelEx", "cudaStreamSynchronize"}) {
    for (const int after : {0, 1, 2, 5}) {
      CAPTURE(function);
      CAPTURE(after);
      Session fresh({.device = "cuda", .streams = 3, .cuda_graphs = false});
      run_step(fresh);
      recording::fail_next(function, cudaErrorInvalidValue, after);
      const std::string text = failure(fresh);
      if (recording::faults_pending() == 0) {
        CHECK(contains(text, message("[cuda] ", function, " failed: invalid argument (cudaErrorInvalidValue)")));
      } else {
        while (recording::faults_pending() > 0) failure(fresh);
      }
      run_step(fresh);
      run_step(fresh);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "what cuBLASLt or cuDNN refuses, and a graph that cannot be launched, fail the step") {
  const Array image = noise({2, 8, 8, 4}, 1), filter = noise({4, 3, 3, 4}, 2);
  const auto run = [&] {
    Step step = session.step();
    random_network(Tensor(noise({8, 8}, 3)), 2, 20);
    conv2d(Tensor(image), filter, {.padding = 1});
    step.run();
    session.synchronize();
  };
  run();
  recording::fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED, 3);
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("[cublas] cublasLtMatmul failed: the GPU program failed to execute"),
                       DeviceError);
  recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("[cudnn] cudnnBackendExecute failed: "), DeviceError);
  for (int i = 0; i < 3; ++i) run();
  recording::fail_next("cudaGraphLaunch", cudaErrorInvalidValue);
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("[cuda] cudaGraphLaunch failed"), DeviceError);
  run();
}

TEST_CASE("where memory is short, a plan without concurrency takes over") {
  const auto arena_of = [](int streams, std::size_t memory) {
    recording::reset();
    recording::set_memory(memory);
    Session session({.device = "cuda", .streams = streams});
    // Four branches of one large value each: side by side they need four times the memory.
    Step step = session.step();
    const Tensor x = Array(DType::f32, {1024, 1024});
    std::vector<Tensor> ends;
    for (int branch = 0; branch < 4; ++branch) {
      Tensor y = relu(linear(x, Array(DType::f32, {1024, 1024})));
      for (int i = 0; i < 3; ++i) y = linear(y, x);
      ends.push_back(linear(y, Array(DType::f32, {1, 1024})));
    }
    sum(ends);
    step.run();
    session.synchronize();
    CHECK((step.plan().policy == "serial") == session.choice_report().starts_with("plans that need "));
    return std::pair(step.plan().policy, session.stats().arena_bytes);
  };
  const std::size_t plenty = std::size_t{16} << 30;
  const std::size_t serial = arena_of(1, plenty).second;
  const auto [policy, concurrent] = arena_of(4, plenty);
  REQUIRE(concurrent > serial);
  CHECK(policy == "critical_path");
  // One byte too little for the arena of the concurrent plan.
  const auto [kept, bytes] = arena_of(4, concurrent - 1);
  CHECK(kept == "serial");
  CHECK(bytes == serial);
}

TEST_CASE("a step whose capture fails runs without it, and says once what broke it") {
  struct Failure {
    std::string function;
    int status;
    int after;
    std::string report;
  };
  for (const auto& [function, status, after, report] :
       {Failure{"cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported, 0, "[cuda] cudaStreamBeginCapture failed"},
        {"cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, 0, "[cuda] cudaStreamEndCapture failed"},
        {"cudaLaunchKernelEx", cudaErrorStreamCaptureInvalidated, 2, "relu 4: [cuda] cudaLaunchKernelEx failed"},
        {"cudaLaunchKernelEx", cudaErrorInvalidValue, 2, "relu 4: [cuda] cudaLaunchKernelEx failed"},
        {"cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED, 2, ": [cublas] cublasLtMatmul failed"},
        {"cudaStreamWaitEvent", cudaErrorStreamCaptureIsolation, 3, "[cuda] cudaStreamWaitEvent failed"},
        {"cudaEventRecord", cudaErrorStreamCaptureInvalidated, 4, "[cuda] cudaEventRecord failed"},
        {"cudaGraphInstantiate", cudaErrorMemoryAllocation, 0, "[cuda] cudaGraphInstantiate failed: out of memory"},
        {"cudaGraphUpload", cudaErrorInvalidValue, 0, "[cuda] cudaGraphUpload failed"}}) {
    CAPTURE(function);
    Fixture fixture;
    Session& session = fixture.session;
    run_step(session);
    run_step(session);
    recording::clear();
    for (int attempt = 0; attempt < 3; ++attempt) {  // another thread may have broken it
      CHECK(session.capture_report().empty());
      recording::fail_next(function, status, after);
      run_step(session);
      CHECK(recording::faults_pending() == 0);
    }
    CHECK(session.stats().captures == 0);
    const std::string said = session.capture_report();
    CHECK(contains(said, "steps run without a CUDA graph: "));
    CHECK(contains(said, report));
    for (int run = 0; run < 3; ++run) run_step(session);
    CHECK(session.capture_report() == said);
    const auto calls = recording::calls();
    CHECK(std::ranges::count(calls, "cudaStreamBeginCapture", &recording::Call::function) == 3);
    CHECK(std::ranges::count(calls, Call::Kind::graph_launch, &Call::kind) == 0);
  }
}

TEST_CASE("a capture that another thread breaks is made in the next run, and nothing is said") {
  Fixture fixture;
  Session& session = fixture.session;
  run_step(session);
  run_step(session);
  recording::fail_next("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated);
  run_step(session);
  CHECK(session.stats().captures == 0);
  run_step(session);
  CHECK(session.stats().captures == 1);
  CHECK(session.capture_report().empty());
}

TEST_CASE("what waits for the device breaks the captures of other threads, and choosing an algorithm does not") {
  recording::reset();
  std::function<void()> action;
  TestKernel kernel([&] { std::jthread(action).join(); });
  const auto backend = make_backend({DeviceType::cuda, 0});
  const auto streams = backend->make_streams({.count = 1});
  const Program program{{{{{Command::Kind::launch, 0}}}}, {&kernel}, {"linear 0"}};
  action = [] { Session({.device = "cuda", .partition = {64}}); };  // its handles end with it
  CHECK_THROWS_AS(streams->capture(program), DeviceError);
  action = [] { Session({.device = "cuda", .streams = 2}); };  // later streams get its handles
  CHECK_NOTHROW(streams->capture(program));
  recording::clear();
  action();
  const auto calls = recording::calls();
  CHECK(std::ranges::count(calls, "cudnnCreate", &recording::Call::function) == 0);
  action = [] {
    const ops::Linear linear;
    const std::vector<ValueDesc> inputs{{DType::f32, {2, 8}}, {DType::f32, {8, 8}}}, outputs{{DType::f32, {2, 8}}};
    const auto other = make_backend({DeviceType::cuda, 0});
    const auto product =
        make_kernel(DeviceType::cuda, {.op = linear, .inputs = inputs, .outputs = outputs, .info = &other->info()});
    product->bind(std::vector<void*>(2), std::vector<void*>(1), nullptr);
  };
  CHECK_NOTHROW(streams->capture(program));
}

TEST_CASE("an op that breaks a capture without an error is found") {
  recording::reset();
  TestKernel breaks([] { cudaDeviceSynchronize(), cudaGetLastError(); }), nothing([] {});
  const auto backend = make_backend({DeviceType::cuda, 0});
  const auto streams = backend->make_streams({.count = 2});
  const CommandLists commands{{{{Command::Kind::launch, 0}}, {{Command::Kind::launch, 1}, {Command::Kind::launch, 2}}}};
  const Program program{commands, {&nothing, &breaks, &nothing}, {"relu 0", "conv2d 1", "relu 2"}};
  CHECK_THROWS_WITH_AS(streams->capture(program), "conv2d 1: what it launches cannot be captured", DeviceError);
  CHECK_NOTHROW(streams->launch(program));
  CHECK_NOTHROW(streams->synchronize());
}

TEST_CASE("a fault that destroys the context ends the use of the GPU by this process, and every session says so") {
  constexpr std::string_view kAdvice = "This process cannot use the GPU any more: start the program again";
  for (const std::string function : {"kernel", "cudaGraphLaunch"}) {
    CAPTURE(function);
    recording::reset();
    std::optional<Session> session;
    session.emplace(SessionOptions{.device = "cuda", .streams = 3, .cuda_graphs = function == "cudaGraphLaunch"});
    session->add("w", {DType::f32, {8}}, ValueKind::parameter);
    for (int run = 0; run < 4; ++run) run_step(*session);
    recording::fail_next(function, cudaErrorIllegalAddress);
    for (int run = 0; run < 2; ++run) {
      const std::string text = failure(*session);
      CHECK(contains(text, "an illegal memory access was encountered"));
      CHECK(contains(text, kAdvice));
    }
    CHECK_THROWS_AS(session->synchronize(), DeviceError);
    session.reset();
    CHECK(recording::mistakes().empty());
    CHECK(recording::alive() == recording::Alive{});
    recording::clear();
    for (const std::string device : {"cuda", "auto"}) {
      CHECK_THROWS_WITH_AS(Session({.device = device}), doctest::Contains(std::string(kAdvice).c_str()), DeviceError);
    }
    for (const recording::Call& call : recording::calls()) CHECK(call.kind != recording::Call::Kind::create);
  }
}

TEST_CASE("a library that fails because the device is lost says that") {
  const FreshDevice world;
  recording::lose_device(cudaErrorECCUncorrectable);
  cudnnHandle_t cudnn = nullptr;
  CHECK_THROWS_WITH_AS(BRAID_CUDNN(cudnnCreate(&cudnn)), doctest::Contains("cudnnCreate failed: uncorrectable ECC"),
                       DeviceLost);
  cublasLtHandle_t cublas = nullptr;
  CHECK_THROWS_WITH_AS(BRAID_CUBLAS(cublasLtCreate(&cublas)), doctest::Contains("start the program again"), DeviceLost);
}

TEST_CASE("a session may end while a step is running or after one has failed") {
  for (const bool fails : {false, true}) {
    const FreshDevice world;
    Session session({.device = "cuda", .streams = 2});
    Step step = session.step();
    random_network(Tensor(noise({8, 8}, 3)), 2, 20);
    if (fails) recording::fail_kernel(cudaErrorLaunchFailure);
    step.run();
  }
}

}  // namespace
}  // namespace braid::testing
