// cuDNN has a deterministic plan for every convolution of every model, in each direction and precision, on an H200:
// planned from the description of that device, so without one. So Braid needs no fallback kernels.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "core/text/json.h"
#include "models/registry.h"
#include "ops/conv/cuda/cudnn/convolution_plans.h"
#include "runtime/session.h"
#include "scheduler/costs/known_devices.h"
#include "tests/models/small_model.h"
#include "tests/source_dir.h"

namespace braid::testing {
namespace {

using cuda::ConvolutionProblem;
using Direction = ConvolutionProblem::Direction;
using Problems = std::unordered_map<Hash, ConvolutionProblem>;

/// The images that a model was made for.
models::ModelOptions native_options(const std::string& model) {
  const auto starts = [&](const char* prefix) { return model.starts_with(prefix); };
  if (starts("lenet") || starts("mlp")) return {.classes = 10, .image_shape = {28, 28, 1}, .auxiliary = true};
  for (const char* small : {"resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "pathnet"}) {
    if (starts(small)) return {.classes = 10, .image_shape = {32, 32, 3}, .auxiliary = true};
  }
  if (starts("unet")) return {.classes = 2, .image_shape = {128, 128, 3}};
  if (starts("dcgan")) return {.classes = 2, .image_shape = {64, 64, 3}};
  if (starts("siamese")) return {.classes = 2, .image_shape = {28, 56, 1}};
  const std::int64_t extent = starts("inception") ? 299 : 224;
  return {.classes = 1000, .image_shape = {extent, extent, 3}, .auxiliary = true};
}

ConvolutionProblem problem(Direction direction, const Conv2dOptions& options) {
  ConvolutionProblem result;
  result.direction = direction;
  result.options = options;
  return result;
}

/// The convolution of a node of a step, with the batch size of the step; nothing for other nodes.
std::optional<ConvolutionProblem> convolution(const StepGraph& graph, NodeId id) {
  const Op& op = *graph.node(id).op;
  const auto inputs = graph.input_descs(id);
  const auto outputs = graph.output_descs(id);
  ConvolutionProblem result;
  if (op.name() == "conv2d") {
    result = problem(Direction::forward, dynamic_cast<const ops::Conv2d&>(op).attributes());
    result.x = inputs[0].shape;
    result.w = inputs[1].shape;
    result.y = outputs[0].shape;
    result.bias = inputs.size() == 3;
    result.relu = result.options.activation == Activation::relu;
  } else if (op.name() == "conv2d_backward_data") {
    result = problem(Direction::backward_data, dynamic_cast<const ops::Conv2dBackwardData&>(op).attributes().options);
    result.x = outputs[0].shape;
    result.w = inputs[1].shape;
    result.y = inputs[0].shape;
  } else if (op.name() == "conv2d_backward_filter") {
    result =
        problem(Direction::backward_filter, dynamic_cast<const ops::Conv2dBackwardFilter&>(op).attributes().options);
    result.x = inputs[0].shape;
    result.w = outputs[0].shape;
    result.y = inputs[1].shape;
  } else {
    return std::nullopt;
  }
  return result;
}

/// Adds the convolutions of one training step on two images: batch normalisation needs more than one.
void collect(const std::string& model, Problems& problems) {
  Session session({.device = "cpu", .streams = 1, .draw_weights = false});
  const models::ModelOptions options = native_options(model);
  const auto network = models::make_model(model, session, options);
  const Shape& image = options.image_shape;
  const Step step = session.step();
  const bool of_pixels = models::model_task(model) == models::Task::segmentation;
  const Tensor labels = Array(DType::i32, of_pixels ? Shape{2, image[0], image[1]} : Shape{2});
  backward(network->training_step(Array(DType::f32, {2, image[0], image[1], image[2]}), labels, labels).objectives);
  const StepGraph& graph = session.tape().graph();
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    if (const auto found = convolution(graph, id)) problems.emplace(found->hash(), *found);
  }
}

Shape with_batch(const Shape& image, std::int64_t batch) { return {batch, image[1], image[2], image[3]}; }

struct Precision {
  DType dtype;
  bool tf32;
};

/// Every problem at every batch size and precision.
std::vector<ConvolutionProblem> variants(const Problems& problems, std::string_view properties) {
  std::vector<ConvolutionProblem> all;
  for (const auto& [hash, base] : problems) {
    for (const std::int64_t batch : {1, 32, 256}) {
      for (const auto& [dtype, tf32] :
           {Precision{DType::f32, false}, {DType::f32, true}, {DType::bf16, false}, {DType::f16, false}}) {
        ConvolutionProblem& variant = all.emplace_back(base);
        variant.x = with_batch(base.x, batch);
        variant.y = with_batch(base.y, batch);
        variant.dtype = dtype;
        variant.tf32 = tf32;
        variant.properties = properties;
      }
    }
  }
  return all;
}

std::string json_of(const cuda::Descriptor& plan) {
  constexpr auto kText = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  const std::vector<char> text = plan.get_all<char>(kText, plan.count(kText, CUDNN_TYPE_CHAR));
  return {text.begin(), text.end()};
}

/// Empty if the plan survives being written and read.
std::string round_trip_fault(const cuda::ConvolutionPlan& plan, const ConvolutionProblem& problem) {
  constexpr auto kWorkspace = CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
  const cuda::Descriptor again = cuda::reload(plan.plan, problem.properties);
  const bool equal = json_of(again) == json_of(plan.plan) &&
                     again.get<std::int64_t>(kWorkspace) == plan.plan.get<std::int64_t>(kWorkspace);
  return equal ? "" : message(plan.name, " reloaded is another plan: ", problem.description());
}

/// Whatever keeps the plans of a problem, as many as are timed, from being built and reloaded from their JSON.
std::vector<std::string> faults_of(ConvolutionProblem problem) {
  auto candidates = cuda::convolution_candidates(problem);
  const auto suits = [&](const auto& candidate) { return candidate.suits(problem); };
  if (std::ranges::none_of(candidates, suits) && (problem.bias || problem.relu)) {  // one of Braid's kernels does these
    problem.bias = problem.relu = false;
    candidates = cuda::convolution_candidates(problem);
  }
  if (std::ranges::none_of(candidates, suits)) return {cuda::why_no_plan(problem)};
  problem.autotune = true;
  const auto plans = cuda::build_plans(problem, std::move(candidates), 12);
  std::vector<std::string> faults;
  if (plans.empty()) faults.push_back("no plan can be built for the " + problem.description());
  for (const auto& plan : plans) {
    if (plan->workspace_bytes > problem.workspace_limit)
      faults.push_back("a plan exceeds the workspace limit: " + problem.description());
    if (std::string fault = round_trip_fault(*plan, problem); !fault.empty()) faults.push_back(fault);
  }
  return faults;
}

/// All of them, or a sample that is spread evenly: one in BRAID_ZOO_SAMPLE.
std::size_t sampling() {
  const char* text = std::getenv("BRAID_ZOO_SAMPLE");
  return text == nullptr ? 1 : std::max<std::size_t>(1, std::strtoul(text, nullptr, 10));
}

}  // namespace

TEST_CASE("cuDNN has deterministic plans for every convolution of the zoo") {
  Problems problems;
  for (const std::string& model : distinct_models()) collect(model, problems);
  const std::string properties = scheduler::known_device("h200").properties;
  const std::vector<ConvolutionProblem> all = variants(problems, properties);
  REQUIRE(!all.empty());
  const std::size_t stride = sampling();
  std::vector<std::string> faults[2];
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (std::vector<std::string>& mine : faults) {
      threads.emplace_back([&] {
        for (std::size_t i = next.fetch_add(stride); i < all.size(); i = next.fetch_add(stride)) {
          const std::vector<std::string> found = faults_of(all[i]);
          mine.insert(mine.end(), found.begin(), found.end());
        }
      });
    }
  }
  for (const std::vector<std::string>& some : faults) {
    for (const std::string& fault : some) FAIL_CHECK(fault);
  }
}

TEST_CASE("the description of the H200 is the one that tests use") {
  std::ifstream file(source_dir() + "/tests/data/h200_device_properties.json");
  std::stringstream text;
  text << file.rdbuf();
  DeviceInfo device = scheduler::known_device("h200");
  const std::string own = scheduler::to_json(device);
  device.properties = text.str();
  CHECK(parse_json(scheduler::to_json(device)) == parse_json(own));  // as values: the order of keys does not count
}

}  // namespace braid::testing
