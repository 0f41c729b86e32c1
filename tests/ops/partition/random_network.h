#pragma once
// Random networks, and what they compute when they are divided (ops/rewrites/partition.h).

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/functions.h"
#include "ops/rewrites/partition.h"
#include "ops/rewrites/partition_check.h"
#include "runtime/session.h"
#include "tests/noise.h"
#include "tests/ops/interpreter.h"

namespace braid::testing {

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
inline Array rows_of_rank(const Array& all, const Shape& rows, const Communicator* communicator) {
  if (all.shape() == rows) return all;
  Array own(all.dtype(), rows);
  const std::byte* const first = all.data() + own.bytes() * static_cast<std::size_t>(communicator->rank());
  std::copy_n(first, own.bytes(), own.data());
  return own;
}

/// The loss and the gradients.
inline std::vector<Array> results_of(const RandomNetwork& network, const RewrittenGraph& graph,
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

/// The graph of one rank. Throws Error if it was not divided right.
inline RewrittenGraph divided(const StepGraph& graph, const ops::Partition& partition) {
  RewrittenGraph result{graph};
  for (std::size_t axis = 0; axis < partition.mesh().axes(); ++axis) {
    RewrittenGraph along = ops::partition(result.graph, partition, axis);
    const std::string fault = ops::check_partition(result.graph, along, partition, axis);
    BRAID_CHECK(fault.empty(), Error, fault);
    result = composed(result, std::move(along));
  }
  return result;
}

}  // namespace braid::testing
