// Faults on a GPU are reported. Faults that destroy the device's context happen in a child process: CUDA can recover
// from them only in a new process.

#include <cstdlib>
#include <filesystem>

#include "autograd/functions.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/gather.h"
#include "ops/kernels/kernels.h"
#include "runtime/session.h"
#include "tests/gpu/gpu_test.h"
#include "tests/ops/interpreter.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

/// A step that works.
void check_usable(Session& session) {
  const Step step = session.step();
  CHECK(relu(Tensor(Array::from<float>({-1, 2}, {2}))).array().as<float>()[1] == 2);
}

}  // namespace

GPU_TEST_CASE("running out of memory is an error with numbers, and the session stays usable") {
  Session session({.device = "cuda", .streams = 2});
  const std::size_t memory = session.backend().info().memory_bytes;
  CHECK_THROWS_AS(session.backend().allocate(2 * memory), OutOfMemory);
  check_usable(session);
}

GPU_TEST_CASE("a step that finds the memory taken is an error, and runs once it is free") {
  constexpr std::size_t kSmallest = 1 << 20;
  Session session({.device = "cuda", .streams = 2});
  check_usable(session);
  const Array large = filled(DType::f32, {1 << 26}, 0);
  const auto run = [&] {
    const Step step = session.step();
    return relu(Tensor(large)).array().as<float>()[0];
  };
  {
    std::vector<Buffer> taken;
    for (std::size_t bytes = session.backend().info().memory_bytes; bytes >= kSmallest;) {
      try {
        taken.push_back(session.backend().allocate(bytes));
      } catch (const OutOfMemory&) {
        bytes /= 2;
      }
    }
    CHECK_THROWS_AS(run(), OutOfMemory);
  }
  CHECK(run() == 0);
}

DEVICE_TEST_CASE("a label or an index out of range is an error of the step, and the session stays usable") {
  Session session({.device = test_device(), .streams = 2});
  const Array logits = Array::from<float>({1, 2, 3, 4}, {2, 2});
  for (int i = 0; i < 5; ++i) {  // before and after the capture
    Step step = session.step();
    const Tensor loss = cross_entropy(Tensor(logits), Array::from<std::int32_t>({0, 7}, {2}));
    step.run();
    CHECK_THROWS_AS(loss.item(), DataError);
  }
  {
    Step step = session.step();
    const ops::GatherAttributes along{1, ops::GatherAttributes::kEveryIndex};
    const Tensor chosen =
        apply_op(std::make_shared<ops::Gather>(along), {Tensor(logits), Array::from<std::int32_t>({0, 7}, {2, 1})});
    step.run();
    CHECK_THROWS_WITH_AS(chosen.array(), doctest::Contains("expected indices in [0, 2), got 7"), DataError);
  }
  check_usable(session);
}

constexpr const char* kIllegalAddress = "in a child process: an illegal address";

TEST_CASE(kIllegalAddress* doctest::skip()) {
  {
    const auto backend = make_backend({DeviceType::cuda, 0});
    const auto streams = backend->make_streams({.count = 1});
    const ValueDesc desc{DType::f32, {1 << 20}};
    const ops::Relu relu;
    const auto kernel = make_kernel(DeviceType::cuda, {.op = relu,
                                                       .inputs = {&desc, 1},
                                                       .outputs = {&desc, 1},
                                                       .device = backend->device(),
                                                       .info = &backend->info()});
    void* const nowhere[] = {nullptr};
    kernel->bind(nowhere, nowhere, nullptr);
    const TestProgram program({{testing::launch(*kernel)}});
    CHECK_THROWS_AS((streams->launch(program), streams->synchronize()), DeviceError);
    CHECK_THROWS_AS(streams->synchronize(), DeviceError);
  }
  CHECK_THROWS_WITH_AS(Session({.device = "cuda"}), doctest::Contains("start the program again"), DeviceError);
}

GPU_TEST_CASE("an illegal address ends the use of the GPU by its process, and no other") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK(std::system(message("'", self, "' --no-skip --test-case='", kIllegalAddress, "'").c_str()) == 0);
  Session session({.device = "cuda", .streams = 2});
  check_usable(session);
}

}  // namespace braid::testing
