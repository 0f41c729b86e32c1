// Random networks compute the same however their nodes are divided (ops/rewrites/partition.h), and as the stages of a
// pipeline (runtime/compile/pipeline.h).

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "autograd/functions.h"
#include "core/comm/local/local_ranks.h"
#include "ops/layout/strided_copy.h"
#include "ops/rewrites/partition.h"
#include "ops/rewrites/shard_check.h"
#include "runtime/compile/pipeline.h"
#include "runtime/session.h"
#include "tests/core/on_all.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/rounding.h"

using namespace braid;
using namespace braid::testing;

namespace {

/// A step that trains a small network on images, in f64, with its inputs: images, labels and weights. Its loss and the
/// gradients of images and weights are kept.
struct RandomNetwork {
  StepGraph graph;
  std::vector<std::pair<ValueId, Array>> given;
  std::vector<ValueId> results;

  static constexpr int kLeastLayers = 4, kMostLayers = 8;  // layer0, layer1, …

  /// With shards, its samples are split.
  explicit RandomNetwork(std::uint64_t seed, const ParallelOptions& parallel = {}) : random_(seed) {
    session_ = std::make_unique<Session>(SessionOptions{.device = "cpu", .parallel = parallel});
    Step step = session_->step();
    const std::int64_t samples = 4, side = chance(50) ? 8 : 16;
    const Layout of_samples = parallel.divides() ? Layout::split : Layout::replicated;
    Tensor x = input({samples, side, side, 4}, of_samples);
    for (int i = 0, layers = kLeastLayers + below(kMostLayers - kLeastLayers + 1); i < layers; ++i) {
      const Tape::Layer scope(session_->tape(), "layer" + std::to_string(i));
      x = layer(x);
    }
    x = chance(50) ? global_avg_pool(x) : reshape(x, {samples, x.shape().size() / samples});
    Array labels(DType::i32, {samples});
    for (std::int32_t& label : labels.as<std::int32_t>()) label = below(4);
    const Tensor given_labels = place(labels, of_samples);
    given.emplace_back(given_labels.id(), labels);
    const Tensor loss = cross_entropy(linear(x, input({4, x.shape()[1]}), input({4})), given_labels);
    backward(loss);
    results.push_back(loss.id());
    for (const Tensor& weight : inputs_) {
      const ValueId gradient = session_->tape().gradient(weight.id());
      if (gradient != kNoValue) results.push_back(gradient);
    }
    graph = session_->tape().graph();
    for (const ValueId result : results) graph.keep(result);
  }

  /// The stage of a persistent tensor.
  std::int16_t owner(std::int32_t slot) const { return session_->parameter(slot).stage(); }

  /// The graph with every node divided along a random axis of its op for each axis of the mesh, along none, or as its
  /// inputs are.
  static StepGraph along_random_axes(StepGraph graph, std::uint64_t seed) {
    Generator random(seed, 1);
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      const auto inputs = graph.input_descs(id), outputs = graph.output_descs(id);
      const NodeValues values{inputs, outputs};
      std::set<char> names{'\0', '_'};
      for (const ValueAxes& value : named_axes(graph.node(id).op->axes(values).notation, values).inputs) {
        for (const char name : value.names) names.insert(static_cast<char>(std::tolower(name)));
      }
      if (graph.node(id).op->name() == "batch_norm")
        names = {'_', 'c'};  // divided by samples, each shard would have its own statistics
      PerMeshAxis<char> axes;
      for (char& axis : axes) {
        axis = *std::next(names.begin(), random.below(static_cast<std::uint32_t>(names.size())));
      }
      graph.divide_along(id, axes);
    }
    return graph;
  }

 private:
  int below(int bound) { return static_cast<int>(random_.below(static_cast<std::uint32_t>(bound))); }
  bool chance(int percent) { return below(100) < percent; }

  Tensor input(const Shape& shape, Layout layout = Layout::replicated) {
    const Array array = noise(shape, static_cast<std::uint64_t>(below(1 << 20)), DType::f64);
    inputs_.push_back(place(array, layout).require_gradient());
    given.emplace_back(inputs_.back().id(), array);
    return inputs_.back();
  }

  Parameter& persistent(const char* name, std::int64_t channels) {
    Parameter& tensor = session_->add(name + std::to_string(given.size()), {DType::f64, {channels}}, ValueKind::state);
    const Array ones = Array::from<double>(std::vector<double>(static_cast<std::size_t>(channels), 1), {channels});
    given.emplace_back(Tensor(tensor).id(), ones);
    return tensor;
  }

  Tensor layer(const Tensor& x) {
    const std::int64_t channels = x.shape()[3], side = x.shape()[1];
    switch (below(8)) {
      case 7:
        return batch_norm(x,
                          {persistent("scale", channels), persistent("shift", channels), persistent("mean", channels),
                           persistent("variance", channels)},
                          {}, true);
      case 0: return relu(x);
      case 1: return x + conv2d(x, input({channels, 3, 3, channels}), {.padding = 1}) * 0.1;
      case 2: return concat({x, conv2d(x, input({4, 1, 1, channels}))});
      case 3: return side < 8 ? x : max_pool2d(x, {.window = 3, .stride = 2, .padding = 1});
      case 4: return avg_pool2d(x, {.window = 3, .stride = 1, .padding = 1});
      case 5: return conv2d(x, input({channels, 3, 3, channels / 2}), input({channels}), {.padding = 1, .groups = 2});
      default: return conv2d(x, input({8, 3, 3, channels}), {.stride = side < 8 ? 1 : 2, .padding = 1});
    }
  }

  Generator random_;
  std::unique_ptr<Session> session_;
  std::vector<Tensor> inputs_;
};

/// The rows of this rank, if it has a part of them.
Array rows_of_rank(const Array& all, const Shape& rows, const Communicator* communicator) {
  if (all.shape() == rows) return all;
  Array own(all.dtype(), rows);
  const std::byte* const first = all.data() + own.bytes() * static_cast<std::size_t>(communicator->rank());
  std::copy_n(first, own.bytes(), own.data());
  return own;
}

/// The loss and the gradients.
std::vector<Array> results_of(const RandomNetwork& network, const RewrittenGraph& graph,
                              Communicator* communicator = nullptr) {
  std::vector<std::pair<ValueId, Array>> given;
  for (const auto& [value, array] : network.given) {
    if (graph.value(value) == kNoValue) continue;
    const Shape& shape = graph.graph.value(graph.value(value)).desc.shape;
    given.emplace_back(graph.value(value), rows_of_rank(array, shape, communicator));
  }
  Interpreter interpreter(graph.graph, given);
  interpreter.run(communicator);
  std::vector<Array> results;
  for (const ValueId result : network.results) results.push_back(interpreter.read(graph.value(result)));
  return results;
}

void check_same(const std::vector<Array>& found, const std::vector<Array>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].shape() == expected[i].shape());
    CHECK(largest_difference(found[i], expected[i]) <= 1e-11 * std::max(1.0, largest(expected[i])));
  }
}

/// The graph of one rank.
RewrittenGraph divided(const StepGraph& graph, const ops::Partition& partition) {
  RewrittenGraph result{graph};
  for (std::size_t axis = 0; axis < partition.mesh().axes(); ++axis) {
    result = composed(result, ops::partition(result.graph, partition, axis));
    for (std::size_t checked = partition.exact ? axis : 0; checked <= axis; ++checked) {
      const std::vector<std::string> faults = ops::check_shards(result.graph, partition, true, checked);
      CHECK_MESSAGE(faults.empty(), faults.front());
    }
  }
  return result;
}

}  // namespace

TEST_CASE("a network computes the same whatever axes its nodes are divided along, by one axis of the mesh and by two" *
          doctest::skip(kThreadsOnly)) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(200)); ++seed) {
    CAPTURE(seed);
    const RandomNetwork network(seed);
    const int shards = seed % 2 == 0 ? 2 : 4;
    const ops::Partition partition{.ranks = 1, .shards = shards, .second_shards = seed % 4 == 1 ? 2 : 1, .exact = true};
    const StepGraph along = RandomNetwork::along_random_axes(network.graph, seed);
    check_same(results_of(network, divided(along, partition)), results_of(network, {network.graph}));
  }
}

TEST_CASE("a network computes the same on ranks whose nodes are divided along any axes") {
  int joined = 0;     // sums along both axes of the mesh at once
  int scattered = 0;  // sums of which every rank needs a part along another axis than the first
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(200)); ++seed) {
    CAPTURE(seed);
    const RandomNetwork network(seed);
    const std::vector<Array> expected = results_of(network, {network.graph});
    const int size = seed % 4 == 0 ? 2 : 4;
    const bool has_two_axes = seed % 4 > 1, exact = seed % 3 == 0;
    const ops::Partition partition{
        .ranks = size, .shards = exact ? 4 : size, .second_shards = has_two_axes ? 2 : 1, .exact = exact};
    const RewrittenGraph of_rank = divided(RandomNetwork::along_random_axes(network.graph, seed), partition);
    joined += static_cast<int>(std::ranges::count_if(of_rank.graph.nodes(), [](const Node& node) {
      const auto* sum = dynamic_cast<const ops::AllReduce*>(node.op.get());
      return sum != nullptr && sum->attributes().along.axis == ops::MeshRanks::kBothAxes;
    }));
    for (const Node& node : of_rank.graph.nodes()) {
      if (dynamic_cast<const ops::ReduceScatter*>(node.op.get()) == nullptr) continue;
      const NodeId leaf = of_rank.graph.value(of_rank.graph.inputs(node).front()).producer;
      scattered += leaf != kNoNode && dynamic_cast<const ops::Permute*>(of_rank.graph.node(leaf).op.get()) != nullptr;
    }
    LocalRanks ranks(size);
    std::vector<std::vector<Array>> results(static_cast<std::size_t>(size));
    const auto errors = on_all(ranks, [&](Communicator& own) {
      results[static_cast<std::size_t>(own.rank())] = results_of(network, of_rank, &own);
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
    for (const std::vector<Array>& found : results) check_same(found, expected);
  }
  CHECK((joined > 0 || !kEveryCase));
  CHECK((scattered > 0 || !kEveryCase));
}

TEST_CASE("a network computes the same on ranks by any strategy for its layers") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(400)); ++seed) {
    CAPTURE(seed);
    Generator random(seed, 3);
    ParallelOptions parallel{.shards = 4, .sync_batch_norm = true};
    parallel.layers.second_axis = 2;
    for (int i = 0; i < RandomNetwork::kMostLayers; ++i) {
      if (random.below(3) == 0) continue;  // divided as its inputs are
      for (int axis = 0; axis < 2; ++axis) parallel.layers["layer" + std::to_string(i)] += "nhw_cccc"[random.below(8)];
    }
    const RandomNetwork network(seed, parallel);
    const std::vector<Array> expected = results_of(network, {network.graph});
    const RewrittenGraph of_rank =
        divided(network.graph, {.ranks = 4, .shards = 4, .second_shards = 2, .exact = seed % 3 == 0});
    const LocalRanks ranks(4);
    std::vector<std::vector<Array>> results(4);
    const auto errors = on_all(ranks, [&](Communicator& own) {
      results[static_cast<std::size_t>(own.rank())] = results_of(network, of_rank, &own);
    });
    for (const std::string& error : errors) CHECK(error == "");
    for (const std::vector<Array>& found : results) check_same(found, expected);
  }
}

TEST_CASE("a network has the same bits as the stages of a pipeline, in any order") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(200)); ++seed) {
    CAPTURE(seed);
    Generator random(seed, 2);
    const int stages = 2 + static_cast<int>(seed % 3);
    ParallelOptions parallel{.shards = 4};
    for (std::uint32_t begin = 0; parallel.stages() < stages;) {
      const int later = stages - parallel.stages() - 1;  // stages, each with a layer
      begin += 1 + random.below(RandomNetwork::kLeastLayers - static_cast<std::uint32_t>(later) - begin - 1);
      parallel.layers.stages.push_back("layer" + std::to_string(begin));
    }
    const RandomNetwork network(seed, parallel);
    const ops::Partition partition{.shards = 4, .exact = true, .bucket_bytes = 0};
    const RewrittenGraph alone = divided(network.graph, partition);
    const std::vector<Array> expected = results_of(network, alone);
    const RewrittenGraph summed = composed(alone, with_incremental_sums(alone.graph));
    PipelineSetting setting{.stages = static_cast<std::size_t>(stages),
                            .micro_batches = 4,
                            .order = scheduler::kPipelines[seed % scheduler::kPipelines.size()],
                            .link = {.latency_seconds = 1e-6},
                            .owner = [&](std::int32_t slot) { return network.owner(slot); }};
    for (NodeId id = 0; id < summed.graph.node_count(); ++id) setting.microseconds.push_back(random.uniform());
    const Pipelined made = pipelined(network.graph, summed, setting);
    LocalRanks ranks(stages);
    const auto errors = on_all(ranks, [&](Communicator& own) {
      const std::vector<Array> found = results_of(network, made.stages[static_cast<std::size_t>(own.rank())], &own);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        BRAID_CHECK(same_bytes(found[i], expected[i]), Error, "result ", i, " differs on rank ", own.rank());
      }
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}
