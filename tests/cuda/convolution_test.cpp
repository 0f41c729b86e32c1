// Plans of convolutions: made for the device, and replaced when cuDNN refuses them.

#include <cudnn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "ops/conv/cuda/cudnn/convolution_plans.h"
#include "tests/cuda/fresh_device.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/sequence/trace.h"
#include "tests/faults.h"

namespace braid::testing {
namespace {

/// A convolution that no other test has, so that its plans are new.
struct NewConvolution {
  explicit NewConvolution(SessionOptions options = {.device = "cuda", .streams = 2}) : session(options) {}
  void run() {
    Step step = session.step();
    conv2d(Tensor(image), filter, {.padding = 1});
    step.run();
    session.synchronize();
    for (NodeId node = 0; node < step.graph().node_count(); ++node) {
      if (step.graph().node(node).op->name() == "conv2d") algorithm = step.chosen(node).algorithm;
    }
  }
  const bool world_is_fresh = (recording::reset(), true);
  Session session;
  static inline std::int64_t size = 40;
  const Array image = noise({2, ++size, 8, 4}, 1), filter = noise({4, 3, 3, 4}, 2);
  std::string algorithm;  // algorithm of the last run
};

/// What the next NewConvolution runs if nothing fails. Plans are remembered per thread, so it stays new to this one.
std::string first_choice() {
  std::string algorithm;
  std::jthread([&] {
    NewConvolution convolution;
    convolution.run();
    algorithm = convolution.algorithm;
  }).join();
  --NewConvolution::size;
  return algorithm;
}

std::int64_t executions() { return std::ranges::count(recording::calls(), "cudnnBackendExecute", &Call::function); }

TEST_CASE("convolutions are planned with a handle for the device, one per thread") {
  NewConvolution convolution;
  convolution.run();
  std::vector<int> handles;
  for (const Call& call : recording::calls()) {
    if (call.function == "cudnnBackendSetAttribute") handles.push_back(call.handle);
  }
  REQUIRE(handles.size() == 1);  // the operation graph's
  for (const Call& call : recording::calls()) {
    if (call.function == "cudnnBackendExecute" || call.function == "cudnnSetStream") CHECK(call.handle != handles[0]);
  }
  CHECK(joined(recording::mistakes()) == "");
}

TEST_CASE("a bias and a ReLU are part of cuDNN's plan, and a ReLU6 is done by a kernel of our own after it") {
  for (const Activation activation : {Activation::relu, Activation::relu6}) {
    const FreshDevice world;
    Session session({.device = "cuda", .streams = 1});
    Step step = session.step();
    const auto f16 = [](const Shape& shape) { return cast(noise(shape, 1), DType::f16); };
    conv2d(f16({2, 8, 8, 64}), f16({64, 3, 3, 64}), f16({64}), {.padding = 1, .activation = activation});
    step.run();
    session.synchronize();
    const auto own = std::ranges::count_if(
        recording::calls(), [](const Call& call) { return call.kernel.find("AddBias") != std::string::npos; });
    CHECK((own > 0) == (activation == Activation::relu6));
  }
}

TEST_CASE("a plan that cuDNN does not execute is reloaded from its JSON") {
  const std::string first = first_choice();
  NewConvolution convolution;
  recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  recording::clear();
  convolution.run();
  CHECK(convolution.algorithm == first);
  CHECK(executions() == 3);  // refused, reloaded, the step
  CHECK(convolution.session.choice_report().empty());
  convolution.run();
  CHECK(executions() == 4);
  CHECK(joined(recording::mistakes()) == "");
}

TEST_CASE("the next plan replaces one that cuDNN does not execute, before the step runs, and the report says so") {
  for (const bool autotune : {false, true}) {
    CAPTURE(autotune);
    const std::string first = first_choice();
    NewConvolution convolution({.device = "cuda", .streams = 2, .autotune = autotune});
    for (int i = 0; i < 2; ++i) recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
    convolution.run();
    CHECK(convolution.algorithm != first);
    const std::string report = convolution.session.choice_report();
    CHECK(mentions({report},
                   "[conv2d] cuDNN does not execute its plan " + first +
                       ": [cudnn] cudnnBackendExecute failed: CUDNN_STATUS_EXECUTION_FAILED: the test says so"));
    const std::string next = convolution.algorithm;
    convolution.run();
    CHECK(convolution.algorithm == next);
    CHECK(joined(recording::mistakes()) == "");
  }
}

TEST_CASE("a lost device is not blamed on the plan that is tried next") {
  NewConvolution convolution;
  recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  recording::fail_next("cudaStreamSynchronize", cudaErrorIllegalAddress);
  CHECK_THROWS_WITH_AS(convolution.run(), doctest::Contains("an illegal memory access was encountered"), DeviceError);
}

TEST_CASE("a lost device is not blamed on the plan that is being made or reloaded") {
  recording::reset();
  const std::string properties = device_properties({DeviceType::cuda, 0});
  const cuda::ConvolutionProblem problem{
      .x = {2, 8, 8, 4}, .w = {4, 3, 3, 4}, .y = {2, 8, 8, 4}, .options = {.padding = 1}, .properties = properties};
  recording::fail_next("finalize plan", CUDNN_STATUS_INTERNAL_ERROR);
  recording::lose_device(cudaErrorIllegalAddress);
  CHECK_THROWS_WITH_AS(cuda::convolution_plans(problem), doctest::Contains("an illegal memory access"), DeviceLost);
  CHECK(recording::faults_pending() == 0);

  NewConvolution convolution;
  recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  recording::fail_next("cudaStreamIsCapturing", cudaErrorIllegalAddress, 1);  // asked after each
  CHECK_THROWS_AS(convolution.run(), DeviceLost);
}

TEST_CASE("if cuDNN executes no plan of a convolution, the error says why") {
  NewConvolution convolution;
  for (int i = 0; i < 1000; ++i) recording::fail_next("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  CHECK_THROWS_WITH_AS(convolution.run(),
                       doctest::Contains("[conv2d] none of cuDNN's plans works for the forward f32 convolution"),
                       DeviceError);
  CHECK(recording::faults_pending() > 0);
}

TEST_CASE("only what cuDNN does not support is passed over without a word") {
  const auto report_after = [](const std::string& function, int status) {
    NewConvolution convolution;
    recording::fail_next(function, status);
    convolution.run();
    return convolution.session.choice_report();
  };
  CHECK(report_after("finalize plan", CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH).empty());
  CHECK(report_after("finalize heuristics", CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN).empty());
  CHECK(mentions({report_after("finalize plan", CUDNN_STATUS_INTERNAL_ERROR)},
                 "[cudnn] cudnnBackendFinalize failed: CUDNN_STATUS_INTERNAL_ERROR: the test says so"));
  CHECK(mentions({report_after("finalize heuristics", CUDNN_STATUS_BAD_PARAM)},
                 "[cudnn] cudnnBackendFinalize failed: CUDNN_STATUS_BAD_PARAM: the test says so"));
}

TEST_CASE("what cuDNN does not describe ends no convolution, unless nothing is left") {
  const std::string first = first_choice(), attribute = "cudnnBackendGetAttribute of an engine";
  {
    NewConvolution other;
    recording::fail_next(attribute, CUDNN_STATUS_NOT_SUPPORTED);
    other.run();
    CHECK(recording::faults_pending() == 0);
    CHECK(other.algorithm != first);
  }
  {
    NewConvolution none;
    for (int i = 0; i < 1000; ++i) recording::fail_next(attribute, CUDNN_STATUS_BAD_PARAM);
    CHECK_THROWS_WITH_AS(none.run(), doctest::Contains("cudnnBackendGetAttribute failed: CUDNN_STATUS_BAD_PARAM"),
                         DeviceError);
  }
  NewConvolution without;
  for (int i = 0; i < 2; ++i) recording::fail_next("finalize heuristics", CUDNN_STATUS_INTERNAL_ERROR);
  CHECK_THROWS_WITH_AS(without.run(), doctest::Contains("[conv2d] none of cuDNN's plans works"), DeviceError);
}

}  // namespace
}  // namespace braid::testing
