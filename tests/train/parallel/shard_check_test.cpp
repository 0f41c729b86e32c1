// Graphs of a rank with one input changed: what is summed twice, not at all, or from the wrong shard is found.

#include "ops/rewrites/shard_check.h"

#include <doctest/doctest.h>

#include "core/graph/graph_copy.h"
#include "models/layers/layers.h"
#include "ops/collective/collective.h"
#include "tests/train/random_perceptron.h"

using namespace braid;

namespace {

/// The same graph, but for one input of a node.
StepGraph changed(const StepGraph& graph, NodeId node, std::size_t input, ValueId instead) {
  GraphCopy copy(graph);
  copy.in_order([&](NodeId id) {
    std::vector<ValueId> inputs = copy.values(graph.inputs(id));
    if (id == node) inputs[input] = instead;
    copy.add_node(id, inputs);
  });
  return copy.finish().graph;
}

bool is_sum(const StepGraph& graph, NodeId node) {
  return dynamic_cast<const ops::AllReduce*>(graph.node(node).op.get()) != nullptr;
}

}  // namespace

TEST_CASE("a sum that takes a shard twice, or what is summed already, and an update without a sum are found") {
  int doubled = 0, summed = 0, unsummed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Generator random(21, seed);
    const StepGraph recorded = random_perceptron(1 + static_cast<int>(random.below(4)), random);
    const std::int64_t per_rank = std::int64_t{1} << random.below(3);
    const ops::Partition partition{.ranks = kPerceptronRanks,
                                   .shards = per_rank * kPerceptronRanks,
                                   .exact = true,
                                   .bucket_bytes = static_cast<std::int64_t>(random.below(2'000'000))};
    const StepGraph divided = ops::partition(recorded, partition).graph;
    REQUIRE(check_shards(divided, partition).empty());
    CAPTURE(seed);
    for (NodeId node = 0; node < divided.node_count(); ++node) {
      const auto inputs = divided.inputs(node);
      const auto faults = [&](std::size_t input, ValueId instead) {
        const std::vector<std::string> found = check_shards(changed(divided, node, input, instead), partition);
        return found.empty() ? "" : found.front();
      };
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (is_sum(divided, node)) {
          const std::size_t next =
              i - i % static_cast<std::size_t>(per_rank) + (i + 1) % static_cast<std::size_t>(per_rank);
          if (per_rank > 1) {
            CHECK(faults(i, inputs[next]).find(message("value ", inputs[next], " is of shard")) != std::string::npos);
            ++doubled;
          }
          for (ValueId value = 0; value < divided.node(node).first_output; ++value) {
            if (divided.value(value).slot < 0 || divided.value(value).desc != divided.value(inputs[i]).desc) continue;
            CHECK(faults(i, value).ends_with("is the same on all ranks."));
            ++summed;
            break;
          }
        } else if (const NodeId producer = divided.value(inputs[i]).producer;
                   producer != kNoNode && is_sum(divided, producer) &&
                   divided.value(divided.output(node, 0)).slot >= 0) {
          const auto place = static_cast<std::size_t>(inputs[i] - divided.output(producer, 0));
          const ValueId leaf = divided.inputs(producer)[place * static_cast<std::size_t>(per_rank)];
          CHECK(faults(i, leaf).find("from what only this rank has") != std::string::npos);
          ++unsummed;
        }
      }
    }
  }
  CHECK(doubled > 100);
  CHECK(summed > 100);
  CHECK(unsummed > 100);
}

TEST_CASE("a sum along the first axis that is lost when the second is divided is found") {
  ParallelOptions parallel{.shards = 4, .layers = {{"0", "_n"}, {"2", "cn"}, {"4", "_c"}, {"8", "cc"}}};
  parallel.layers.second_axis = 2;
  Session session({.device = "cpu", .parallel = parallel});
  Sequential network(session);
  for (int i = 0; i < 4; ++i) {
    network.append<ConvLayer>(8, 8, 3, Conv2dOptions{.padding = 1});
    network.append<FunctionLayer>(relu);
  }
  network.append<MaxPoolLayer>(PoolOptions{.window = 2, .stride = 2});
  SGD sgd(network.parameters(), {.lr = 0.1});
  Step step = session.step();
  backward(sum(network(place(Array(DType::f32, {4, 8, 8, 8}), Layout::split))));
  sgd.step();
  const ops::Partition partition{.ranks = 4, .shards = 4, .second_shards = 2};
  const StepGraph first = ops::partition(session.tape().graph(), partition, 0).graph;
  const StepGraph divided = ops::partition(first, partition, 1).graph;
  step.discard();
  for (const std::size_t axis : {0, 1}) REQUIRE(check_shards(divided, partition, true, axis).empty());
  int lost = 0;
  for (NodeId node = 0; node < divided.node_count(); ++node) {
    const auto inputs = divided.inputs(node);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const NodeId producer = divided.value(inputs[i]).producer;
      if (producer == kNoNode || !is_sum(divided, producer)) continue;
      const auto* const sum = dynamic_cast<const ops::AllReduce*>(divided.node(producer).op.get());
      if (sum->attributes().along.axis == 1) continue;
      const auto place = static_cast<std::size_t>(inputs[i] - divided.output(producer, 0));
      const ValueId leaf = divided.inputs(producer)[place];
      CHECK(!check_shards(changed(divided, node, i, leaf), partition, true, 0).empty());
      ++lost;
    }
  }
  CHECK(lost > 0);
}
