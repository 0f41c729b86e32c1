#include "ops/conv/cuda/cudnn/convolution_plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "scheduler/costs/known_devices.h"

namespace braid::testing {
namespace {

using cuda::ConvolutionProblem;
using Direction = ConvolutionProblem::Direction;

const std::string& h200() {
  static const std::string properties = scheduler::known_device("h200").properties;
  return properties;
}

/// A 3x3 convolution of ResNet's second stage.
ConvolutionProblem problem(Direction direction = Direction::forward) {
  ConvolutionProblem problem;
  problem.direction = direction;
  problem.x = problem.y = {32, 56, 56, 64};
  problem.w = {64, 3, 3, 64};
  problem.options = {.padding = 1};
  problem.properties = h200();
  return problem;
}

constexpr Direction kDirections[] = {Direction::forward, Direction::backward_data, Direction::backward_filter};

}  // namespace

TEST_CASE("plans come in the order of the heuristics, within the limit, and with one of the least workspace") {
  for (const Direction direction : kDirections) {
    ConvolutionProblem p = problem(direction);
    std::size_t least = p.workspace_limit;
    for (const auto& candidate : cuda::convolution_candidates(p)) {
      if (candidate.suits(p)) least = std::min(least, candidate.workspace_bytes);
    }
    const cuda::ConvolutionPlans plans = cuda::convolution_plans(p);
    REQUIRE(plans.size() >= 2);
    CHECK(plans.front()->rank == 0);
    CHECK(std::ranges::is_sorted(plans, {}, [](const auto& plan) { return plan->rank; }));
    CHECK(std::ranges::any_of(plans, [&](const auto& plan) { return plan->workspace_bytes == least; }));

    p.workspace_limit = plans.front()->workspace_bytes;
    for (const auto& plan : cuda::convolution_plans(p)) CHECK(plan->workspace_bytes <= p.workspace_limit);
  }
}

TEST_CASE("where plans are timed, there are more, and all of the best engines are among them") {
  for (const Direction direction : kDirections) {
    ConvolutionProblem p = problem(direction);
    p.dtype = DType::bf16;
    const auto engines_of = [](const auto& list, const auto& name) {
      std::set<std::string> engines;
      for (const auto& item : list) engines.insert(name(item).substr(0, name(item).find('_')));
      return engines;
    };
    auto candidates = cuda::convolution_candidates(p);
    std::erase_if(candidates, [&](const auto& candidate) { return !candidate.suits(p); });
    const auto offered = engines_of(candidates, [](const auto& candidate) { return candidate.name; });
    const auto name = [](const auto& plan) { return plan->name; };
    CHECK(cuda::convolution_plans(p).size() <= 4);
    const auto usual = engines_of(cuda::convolution_plans(p), name);
    p.autotune = true;
    const cuda::ConvolutionPlans plans = cuda::convolution_plans(p);
    CHECK(plans.size() >= 11);
    CHECK(plans.size() <= 12);
    CHECK(plans.front()->rank == 0);
    CHECK(std::ranges::is_sorted(plans, {}, [](const auto& plan) { return plan->rank; }));
    CHECK(offered.size() > usual.size());
    CHECK(engines_of(plans, name) == offered);
  }
}

TEST_CASE("an engine that is compiled when its plan is built is used only if there is no other") {
  const ConvolutionProblem p = problem();
  const std::string first = cuda::convolution_plans(p).front()->name;
  const auto plans_if = [&](const auto& compiles) {
    auto candidates = cuda::convolution_candidates(p);
    for (auto& candidate : candidates) {
      if (compiles(candidate.name)) candidate.behavior_notes = {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
    }
    return cuda::build_plans(p, std::move(candidates), 4);
  };
  for (const auto& plan : plans_if([&](const std::string& name) { return name == first; })) CHECK(plan->name != first);
  const auto compiled = plans_if([](const std::string&) { return true; });
  CHECK(compiled.size() == 1);  // a second each
  CHECK(compiled.front()->name == first);
}

TEST_CASE("candidates that transform images are left out where direct convolutions are asked for") {
  const ConvolutionProblem any = problem();
  ConvolutionProblem direct = any;
  direct.direct = true;
  CHECK(direct.hash() != any.hash());
  // cuDNN has no suitable plan for images [N,H,W,C] on an H200.
  auto candidates = cuda::convolution_candidates(any);
  for (cuda::ConvolutionCandidate& candidate : candidates) {
    CHECK(candidate.suits(direct) == candidate.suits(any));
    for (const auto note : {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
                            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6}) {
      candidate.numerical_notes = {note};
      CHECK(candidate.suits(any) == (candidate.workspace_bytes <= any.workspace_limit));
      CHECK_FALSE(candidate.suits(direct));
    }
  }
}

TEST_CASE("candidates that round f32 or sum in any order are left out unless they are allowed") {
  std::size_t rounding = 0, unordered = 0;
  for (const Direction direction : kDirections) {
    ConvolutionProblem strict = problem(direction);
    ConvolutionProblem loose = strict;
    loose.tf32 = true;
    loose.deterministic = false;
    for (const auto& candidate : cuda::convolution_candidates(strict)) {
      const bool rounds = candidate.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      if (rounds || !candidate.deterministic()) CHECK_FALSE(candidate.suits(strict));
      rounding += rounds && candidate.suits(loose);
      unordered += !candidate.deterministic() && candidate.suits(loose);
    }
  }
  CHECK(rounding > 0);
  CHECK(unordered > 0);
}

TEST_CASE("a bias is part of the plan, and a ReLU after it") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(dtype);
    ConvolutionProblem p = problem();
    p.dtype = dtype;
    p.bias = true;
    CHECK_FALSE(cuda::convolution_plans(p).empty());
    p.relu = true;
    CHECK_FALSE(cuda::convolution_plans(p).empty());
  }
}

TEST_CASE("plans can be requested for a part of the device") {
  ConvolutionProblem p = problem();
  p.dtype = DType::bf16;
  p.multiprocessors = 16;
  CHECK_FALSE(cuda::convolution_candidates(p).empty());
  CHECK_FALSE(cuda::convolution_plans(p).empty());
  p.dtype = DType::f32;  // for which cuDNN has none
  CHECK_FALSE(cuda::convolution_plans(p).empty());
}

TEST_CASE("a problem that repeats gets the same plans, another one its own") {
  const cuda::ConvolutionPlans plans = cuda::convolution_plans(problem());
  CHECK(cuda::convolution_plans(problem()) == plans);
  ConvolutionProblem other = problem();
  other.options.padding = 0;
  other.y = {32, 54, 54, 64};
  CHECK(cuda::convolution_plans(other).front() != plans.front());
}

TEST_CASE("an operation that cuDNN does not support is an error that says what to change") {
  ConvolutionProblem p = problem();
  p.workspace_limit = 1000;
  CHECK(cuda::why_no_plan(p) ==
        "[conv2d] cuDNN has no deterministic algorithm for the forward f32 convolution of [32,56,56,64] with "
        "[64,3,3,64] (stride 1x1, padding 1x1, dilation 1x1, groups 1) within 1000 bytes of workspace and without "
        "tf32: allow more workspace, or set deterministic: false");
  p.dtype = DType::i32;
  CHECK_THROWS_AS(cuda::convolution_plans(p), DeviceError);
  p = problem();
  p.properties = "{}";
  CHECK_THROWS_AS(cuda::convolution_plans(p), DeviceError);
}

}  // namespace braid::testing
