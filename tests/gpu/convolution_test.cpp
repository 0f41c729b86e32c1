// Every plan that cuDNN offers for a convolution, not only the one that a step would choose: launched, launched again,
// and replayed as a graph, against plain loops on the CPU in f64.

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/conv/conv2d.h"
#include "tests/gpu/gpu_test.h"
#include "tests/noise.h"
#include "tests/ops/check_close.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"
#include "tests/test_program.h"

namespace braid::testing {
namespace {

struct Convolution {
  std::string name;
  Shape x, w;
  Conv2dOptions options = {};
};

/// One direction of a convolution, with inputs rounded to a type and what plain loops make of them.
struct Problem {
  OpPtr op;
  DType dtype;
  bool tf32;
  std::vector<Array> inputs;
  Array exact;
  std::int64_t terms;  // terms of each sum
};

Array random(const Shape& shape, DType dtype, std::uint64_t seed) { return cast(noise(shape, seed), dtype); }

Problem problem(OpPtr op, DType dtype, bool tf32, const std::vector<Shape>& shapes, std::int64_t terms) {
  std::vector<Array> inputs, wide;
  for (const Shape& shape : shapes) {
    inputs.push_back(random(shape, dtype, inputs.size() + 1));
    wide.push_back(cast(inputs.back(), DType::f64));
  }
  Array exact = run_op(*op, wide, {.portable = true}).front();
  return {std::move(op), dtype, tf32, std::move(inputs), std::move(exact), terms};
}

/// Forward, with and without bias and ReLU, and both gradients.
std::vector<Problem> problems(const Convolution& of, DType dtype, bool tf32) {
  const auto forward = std::make_shared<const ops::Conv2d>(of.options);
  Conv2dOptions activating = of.options;
  activating.activation = Activation::relu;
  std::vector<OutputDesc> inferred;
  forward->infer(std::vector<ValueDesc>{{dtype, of.x}, {dtype, of.w}}, inferred);
  const Shape& y = inferred[0].shape;
  const std::int64_t window = of.w[1] * of.w[2], outputs = y[0] * y[1] * y[2];
  const auto make = [&](OpPtr op, const std::vector<Shape>& shapes, std::int64_t terms) {
    return problem(std::move(op), dtype, tf32, shapes, terms);
  };
  using Gradient = GradientOf<Conv2dOptions>;
  return {
      make(forward, {of.x, of.w}, window * of.w[3]),
      make(std::make_shared<const ops::Conv2dBackwardData>(Gradient{of.options, of.x}), {y, of.w}, window * of.w[0]),
      make(std::make_shared<const ops::Conv2dBackwardFilter>(Gradient{of.options, of.w}), {of.x, y}, outputs),
      make(std::make_shared<const ops::Conv2d>(activating), {of.x, of.w, {of.w[0]}}, window * of.w[3])};
}

class Runner {
 public:
  /// Runs on a stream with this many SMs; 0: with the whole device.
  explicit Runner(int multiprocessors = 0) : multiprocessors_(multiprocessors) {
    if (multiprocessors > 0) streams_ = backend_->make_streams({.partition = {multiprocessors}});
  }

  /// The implementations of a problem, for a device.
  Implementations implementations(const Problem& of, bool autotune, const DeviceInfo& info) const {
    std::vector<ValueDesc> inputs;
    for (const Array& input : of.inputs) inputs.push_back(desc_of(input));
    const ValueDesc output{of.dtype, of.exact.shape()};
    return make_implementations(backend_->device().type, {.op = *of.op,
                                                          .inputs = inputs,
                                                          .outputs = {&output, 1},
                                                          .tf32 = of.tf32,
                                                          .autotune = autotune,
                                                          .multiprocessors = multiprocessors_,
                                                          .device = backend_->device(),
                                                          .info = &info});
  }

  /// Their names for the device, or for its description by cuDNN.
  std::vector<std::string> names(const Problem& of, bool described) const {
    DeviceInfo info = backend_->info();
    if (described) info.properties = device_properties(backend_->device());
    std::vector<std::string> list;
    for (const Implementation& implementation : implementations(of, true, info)) list.emplace_back(implementation.name);
    return list;
  }

  /// Checks up to `most` implementations of a problem. Returns how many there are. A few SMs may be too few for a plan
  /// whose blocks form clusters: it must refuse to run, and no other plan may notice.
  std::size_t check(const Problem& of, bool autotune, std::size_t most = 100) {
    const Implementations list = implementations(of, autotune, backend_->info());
    for (std::size_t i = 0; i < std::min(most, list.size()); ++i) {
      CAPTURE(of.op->name());
      CAPTURE(of.dtype);
      CAPTURE(of.tf32);
      CAPTURE(list[i].name);
      try {
        check(of, *list[i].kernel);
      } catch (const UnusableKernel& error) {
        CHECK_MESSAGE(multiprocessors_ > 0, error.what());
        CHECK(i > 0);
      }
    }
    return list.size();
  }

 private:
  void check(const Problem& of, Kernel& kernel) {
    std::vector<Buffer> inputs;
    std::vector<void*> from;
    for (const Array& input : of.inputs) from.push_back(inputs.emplace_back(uploaded(input)).data());
    Buffer output = backend_->allocate(of.exact.bytes());
    Buffer workspace = backend_->allocate(std::max<std::size_t>(kernel.workspace_bytes(), 1));
    void* const to[] = {output.data()};
    kernel.bind(from, to, workspace.data());
    const TestProgram program({{testing::launch(kernel)}});
    const auto result = [&](std::uint8_t garbage, const auto& run) {
      for (const Buffer* buffer : {&output, &workspace}) {
        const std::vector<std::uint8_t> bytes(buffer->bytes(), garbage);
        backend_->copy_to_device(buffer->data(), bytes.data(), bytes.size());
      }
      run();
      streams_->synchronize();
      Array array(of.dtype, of.exact.shape());
      backend_->copy_to_host(array.data(), output.data(), array.bytes());
      return array;
    };
    const Array once = result(0xff, [&] { streams_->launch(program); });
    const double rounding = of.tf32 ? 0x1p-11 : unit_roundoff(of.dtype), sum = of.tf32 ? 0x1p-11 : 0x1p-24;
    // Some of cuDNN's gradients of filters in 16 bits round the sums of up to about a hundred parts.
    const double roundings = of.op->name() == "conv2d_backward_filter" && of.dtype != DType::f32 ? 10 : 2;
    check_close({once}, {of.exact},
                [&](const Array&) { return sum_error(static_cast<double>(of.terms), sum, roundings / 2 * rounding); });
    CHECK(same_bytes(once, result(0x00, [&] { streams_->launch(program); })));
    const auto replay = streams_->capture(program);
    if (replay != nullptr) CHECK(same_bytes(once, result(0xff, [&] { streams_->launch(*replay); })));
  }

  Buffer uploaded(const Array& array) {
    Buffer buffer = backend_->allocate(array.bytes());
    backend_->copy_to_device(buffer.data(), array.data(), array.bytes());
    return buffer;
  }

  int multiprocessors_;
  std::unique_ptr<Backend> backend_ = make_backend(Device::parse(test_device()));
  std::unique_ptr<StreamGroup> streams_ = backend_->make_streams({.count = 1});
};

const Convolution kUsual{"3x3", {4, 28, 28, 64}, {96, 3, 3, 64}, {.padding = 1}};

const Convolution kConvolutions[] = {kUsual,
                                     {"1x1", {4, 14, 14, 256}, {128, 1, 1, 256}},
                                     {"1x1 stride 2", {4, 28, 28, 128}, {256, 1, 1, 128}, {.stride = 2}},
                                     {"stem", {2, 64, 64, 3}, {64, 7, 7, 3}, {.stride = 2, .padding = 3}},
                                     {"1x7", {2, 17, 17, 128}, {128, 1, 7, 128}, {.padding = {0, 3}}},
                                     {"depthwise", {4, 14, 14, 96}, {96, 3, 3, 1}, {.padding = 1, .groups = 96}},
                                     {"5x5", {4, 14, 14, 32}, {48, 5, 5, 32}, {.padding = 2}},
                                     {"groups", {4, 14, 14, 64}, {64, 3, 3, 16}, {.padding = 1, .groups = 4}},
                                     {"dilated", {2, 20, 20, 64}, {64, 3, 3, 64}, {.padding = 2, .dilation = 2}}};

struct Precision {
  DType dtype;
  bool tf32;
};
constexpr Precision kPrecisions[] = {
    {DType::f32, false}, {DType::f32, true}, {DType::bf16, false}, {DType::f16, false}};

}  // namespace

TEST_SUITE_BEGIN("smoke");

DEVICE_TEST_CASE("one convolution agrees with plain loops, forward and backward") {
  Runner runner;
  for (const Problem& problem : problems(kUsual, DType::bf16, false)) runner.check(problem, false, 1);
}

TEST_SUITE_END();

DEVICE_TEST_CASE("every plan of a convolution agrees with plain loops, and is deterministic, also as a graph") {
  Runner runner;
  std::size_t usual = 0, timed = 0;
  for (const Convolution& convolution : kConvolutions) {
    CAPTURE(convolution.name);
    for (const auto& [dtype, tf32] : kPrecisions) {
      for (const Problem& problem : problems(convolution, dtype, tf32)) {
        usual += runner.check(problem, false, 0);
        timed += runner.check(problem, true);
      }
    }
  }
  if (tests_gpu()) CHECK(timed > usual);
}

DEVICE_TEST_CASE("plans for a few SMs agree with plain loops, on a stream that has no more") {
  if (!tests_gpu()) return;
  Runner runner(16);
  for (const auto& [dtype, tf32] : kPrecisions) {
    for (const Problem& problem : problems(kUsual, dtype, tf32)) runner.check(problem, true);
  }
}

DEVICE_TEST_CASE("cuDNN has the same plans for a device as for its description") {
  if (!tests_gpu()) return;
  const Runner runner;
  for (const Convolution& convolution : std::span(kConvolutions).first(6)) {
    CAPTURE(convolution.name);
    for (const Problem& problem : problems(convolution, DType::bf16, false)) {
      CAPTURE(problem.op->name());
      CHECK(runner.names(problem, true) == runner.names(problem, false));
    }
  }
}

}  // namespace braid::testing
