#include "runtime/compile/ranks/layerwise.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions.h"
#include "core/base/random.h"
#include "models/registry.h"
#include "runtime/compile/planner.h"
#include "runtime/compile/ranks/bucket_choice.h"
#include "runtime/session.h"
#include "scheduler/costs/costs.h"
#include "scheduler/costs/known_devices.h"
#include "tests/effort.h"
#include "train/optimizer.h"
#include "train/run/strategy.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr int kDevices = 4;

/// A training step of a network on images whose samples are split, for kDevices devices with a slow link.
struct Recorded {
  StepGraph graph;
  std::vector<std::string> layers;
  int second_axis = 1;  // of the strategy
  DeviceInfo device = scheduler::known_device("v100");

  Recorded(const char* network, const Shape& image, const Strategy& strategy = {}) : second_axis(strategy.second_axis) {
    device.link = {.latency_seconds = 10e-6, .bytes_per_second = 5e9};
    Session session(
        {.device = "cpu", .draw_weights = false, .parallel = {.virtual_ranks = kDevices, .layers = strategy}});
    const auto model = models::make_model(network, session, {.classes = 8, .image_shape = image});
    SGD sgd(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    Step step = session.step();
    const std::int64_t samples = 8 * kDevices;
    const Tensor images = place(Array(DType::f32, {samples, image[0], image[1], image[2]}), Layout::split);
    const Tensor labels = place(Array(DType::i32, {samples}), Layout::split);
    backward(cross_entropy((*model)(images), labels));
    sgd.step();
    graph = session.tape().graph();
    for (NodeId node = 0; node < graph.node_count(); ++node) layers.push_back(session.tape().layer(node));
    step.discard();
  }

  LayeredStep layered(int second = 1) const {
    return {.graph = graph, .layers = layers, .shards = kDevices, .second_axis = second, .model = {device, {1}}};
  }

  /// The sum of all durations on one of kDevices ranks, and the bytes of its arena if all gradients live until the end.
  scheduler::LayerCost one_after_another() const {
    const RewrittenGraph divided = as_planned(
        graph, device, {.ranks = kDevices, .shards = kDevices, .second_shards = second_axis, .bucket_bytes = 1});
    const scheduler::Costs costs = scheduler::analytic_costs(divided.graph, device, std::vector{1});
    scheduler::LayerCost sum;
    for (const NodeId node : divided.graph.launched_nodes()) sum.time += costs.fastest(node);
    const scheduler::Problem problem = scheduler::make_problem(divided.graph, costs, device, 1);
    const scheduler::Policy in_recording_order = [](const scheduler::Problem& recorded) {
      scheduler::Schedule schedule = serial(recorded);
      schedule.order = recorded.graph.launched_nodes();
      return schedule;
    };
    sum.bytes = static_cast<double>(make_plan(problem, in_recording_order, "recorded").arena_bytes);
    return sum;
  }

  /// The time of a step on several streams.
  double simulated() const {
    const std::string policy = SessionOptions{}.policy;
    const scheduler::CostModel model{device, {1}};
    const ops::Partition partition =
        with_buckets(graph, {.ranks = kDevices, .shards = kDevices, .second_shards = second_axis}, model,
                     kPlannedStreams, scheduler::find_policy(policy));
    return make_plan(model.problem(as_planned(graph, device, partition).graph, kPlannedStreams),
                     scheduler::find_policy(policy), policy)
        .makespan;
  }
};

}  // namespace

TEST_CASE("the costs of layers add up to about what the divided step takes, one node after another, and its arena") {
  struct Row {
    const char* network;
    Shape image;
  };
  for (const Row& row : {Row{"alexnet", {64, 64, 3}}, {"googlenet", {64, 64, 3}}, {"vgg16", {32, 32, 3}}}) {
    CAPTURE(row.network);
    const Recorded recorded(row.network, row.image);
    for (const int second_axis : {1, 2}) {
      const LayerwiseCosts costs = layerwise_costs(recorded.layered(second_axis));
      const auto check = [&](std::span<const std::size_t> chosen, double most, double most_bytes) {
        Strategy strategy;
        strategy.second_axis = second_axis;
        for (std::size_t i = 0; i < chosen.size(); ++i) strategy[costs.layers[i]] = costs.dimensions[i][chosen[i]];
        const scheduler::LayerCost sum = scheduler::total(costs.costs, chosen);
        const scheduler::LayerCost planned = Recorded(row.network, row.image, strategy).one_after_another();
        const double ratio = sum.time / planned.time;
        CHECK(sum.bytes / planned.bytes > 0.8);
        CHECK(sum.bytes / planned.bytes < most_bytes);
        CAPTURE(second_axis);
        CHECK(ratio > 0.8);
        CHECK(ratio < most);
      };
      std::vector<std::size_t> samples;
      for (const std::vector<std::string>& dimensions : costs.dimensions) {
        samples.push_back(static_cast<std::size_t>(std::ranges::find(dimensions, second_axis == 1 ? "n" : "nn") -
                                                   dimensions.begin()));
      }
      check(samples, 1.1, 1.3);
      const std::vector<std::size_t> best = scheduler::cheapest(costs.costs).front();
      check(best, 1.1, 1.3);
      CHECK(scheduler::total(costs.costs, best).time <= scheduler::total(costs.costs, samples).time);
      Generator random(1, 1);
      for (int draw = 0; draw < some_of(10); ++draw) {
        std::vector<std::size_t> chosen;
        for (const std::vector<std::string>& dimensions : costs.dimensions) {
          chosen.push_back(random.below(static_cast<std::uint32_t>(dimensions.size())));
        }
        check(chosen, 1.6, 2.2);  // several layers may read what is gathered once
      }
    }
  }
}

TEST_CASE(
    "of the strategies with names and those with the least sums, the one with the shortest simulated step is chosen") {
  TrainConfig config;
  config.model.name = "mlp";
  config.data.name = "synthetic";
  config.data.image_size = 64;
  config.data.channels = 3;
  config.data.classes = 8;
  config.optimizer = {.name = "sgd", .lr = 0.1, .momentum = 0.9};
  config.session.intra_op_threads = 1;
  config.session.parallel = {.virtual_ranks = kDevices, .strategy = "layerwise"};
  const Recorded recorded("mlp", {64, 64, 3});
  DatasetPool datasets;
  const Strategy chosen = find_strategy(config, datasets, 8 * kDevices, [&] { return recorded.device; });

  std::vector<Strategy> candidates{{}, one_weird_trick(layers_of(recorded.layered()))};
  for (const double exposed : {1.0, 0.25}) {
    std::vector<LayerwiseStrategy> best;
    for (const int second_axis : {1, 2}) {
      const LayerwiseCosts costs = layerwise_costs(recorded.layered(second_axis));
      for (LayerwiseStrategy& each : layerwise(costs, 2, scheduler::kNoLimit, exposed)) best.push_back(std::move(each));
    }
    std::ranges::stable_sort(best, {}, [](const LayerwiseStrategy& each) { return each.cost.time; });
    for (std::size_t i = 0; i < 2; ++i) candidates.push_back(best[i].strategy);
  }
  std::vector<double> times;
  for (const Strategy& each : candidates) times.push_back(Recorded("mlp", {64, 64, 3}, each).simulated());
  const double shortest = std::ranges::min(times);
  CHECK(shortest < 0.99 * std::min(times[0], times[1]));
  const auto found = static_cast<std::size_t>(std::ranges::find(candidates, chosen) - candidates.begin());
  REQUIRE(found < candidates.size());
  CHECK(times[found] < 1.1 * shortest);  // a training step also counts correct predictions
}

TEST_CASE("layers can be divided along the dimensions that their op and their parameters have in equal parts") {
  const auto dimensions_of = [](const std::vector<LayerDimensions>& layers, const std::string& name) {
    const auto layer = std::ranges::find(layers, name, &LayerDimensions::name);
    std::string all;
    for (const std::string& dimensions : layer->dimensions) all += (all.empty() ? "" : " ") + dimensions;
    return all;
  };
  const Recorded resnet("resnet20", {32, 32, 3});
  const std::vector<LayerDimensions> layers = layers_of(resnet.layered());
  CHECK(dimensions_of(layers, "conv1") == "n h w c");
  CHECK(dimensions_of(layers, "layer3.2.conv2") == "n h w c");
  CHECK(dimensions_of(layers, "fc") == "n c");
  CHECK(std::ranges::count(layers, true, &LayerDimensions::is_fully_connected) == 1);
  // Divided along other dimensions, it would take the statistics of all samples.
  const LayerwiseCosts costs = layerwise_costs(resnet.layered());
  const auto bn = std::ranges::find(costs.layers, "bn1") - costs.layers.begin();
  REQUIRE(bn < std::ssize(costs.layers));
  CHECK(costs.dimensions[static_cast<std::size_t>(bn)] == std::vector<std::string>{"n"});
  CHECK(dimensions_of(layers_of(resnet.layered(2)), "layer3.2.conv2") ==
        "nn nh nw nc n_ hn hw hc h_ wn wh wc w_ cn ch cw cc c_ _n _h _w _c");
  CHECK(dimensions_of(layers_of(resnet.layered(2)), "fc") == "nn nc n_ cn cc c_ _n _c");
  // A convolution without padding gives its neighbours no equal parts of rows, a filter of 20 channels none of 8.
  const Recorded lenet("lenet5", {28, 28, 1});
  CHECK(dimensions_of(layers_of(lenet.layered()), "conv2") == "n c");
}
