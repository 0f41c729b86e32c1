// Random networks compute the same however their nodes are divided (ops/rewrites/partition.h), and as the stages of a
// pipeline (runtime/compile/ranks/pipeline.h).

#include <doctest/doctest.h>

#include <algorithm>

#include "core/comm/local/local_ranks.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/strided_copy.h"
#include "runtime/compile/ranks/pipeline.h"
#include "tests/core/on_all.h"
#include "tests/effort.h"
#include "tests/ops/check_close.h"
#include "tests/ops/partition/random_network.h"

using namespace braid;
using namespace braid::testing;

namespace {

void check_same(const std::vector<Array>& found, const std::vector<Array>& expected) {
  check_close(found, expected, [](const Array&) { return 1e-11; });
}

template <class Collective>
std::ptrdiff_t count_of(const StepGraph& graph) {
  return std::ranges::count_if(
      graph.nodes(), [](const Node& node) { return dynamic_cast<const Collective*>(node.op.get()) != nullptr; });
}

}  // namespace

TEST_CASE("a network computes the same whatever axes its nodes are divided along, by one axis of the mesh and by two" *
          doctest::skip(kThreadsOnly)) {
  std::ptrdiff_t exchanged = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(200)); ++seed) {
    CAPTURE(seed);
    const RandomNetwork network(seed);
    const int shards = seed % 2 == 0 ? 2 : 4;
    const ops::Partition partition{.ranks = 1, .shards = shards, .second_shards = seed % 4 == 1 ? 2 : 1, .exact = true};
    const RewrittenGraph of_rank = divided(RandomNetwork::along_random_axes(network.graph, seed), partition);
    exchanged += count_of<ops::AllToAll>(of_rank.graph);
    check_same(results_of(network, of_rank), results_of(network, {network.graph}));
  }
  CHECK((exchanged > 0 || !kEveryCase));
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

TEST_CASE("a value that is split along one axis is exchanged between ranks, not gathered, to split it along another") {
  StepGraph graph;
  const Array x = noise({4, 8, 4, 4}, 1, DType::f64);
  const ValueId given = graph.add_input(desc_of(x), Layout::split);
  ValueId value = given;
  for (const char axis : {'1', '2', '3', '0'}) {  // of every element
    value = graph.add_node(std::make_shared<ops::Scale>(2.0), std::vector{value});
    graph.divide_along(graph.node_count() - 1, {axis});
  }
  graph.keep(value);
  for (const int size : {2, 4}) {
    for (const int shards : {size, 4}) {
      const RewrittenGraph of_rank = divided(graph, {.ranks = size, .shards = shards, .exact = true});
      CHECK(count_of<ops::AllToAll>(of_rank.graph) == 4);
      CHECK(count_of<ops::AllGather>(of_rank.graph) == 1);  // of the result
      double exchanged = 0;
      for (const Node& node : of_rank.graph.nodes()) {
        if (dynamic_cast<const ops::AllToAll*>(node.op.get()) == nullptr) continue;
        const auto first = of_rank.graph.inputs(node);
        std::vector<ValueDesc> inputs;
        for (const ValueId input : first) inputs.push_back(of_rank.graph.value(input).desc);
        exchanged += sent_bytes(node.op->communication(inputs, {}));
      }
      CHECK(exchanged == 4.0 * static_cast<double>(x.bytes()) / size * (size - 1) / size);
      LocalRanks ranks(size);
      std::vector<Array> results(static_cast<std::size_t>(size));
      const auto errors = on_all(ranks, [&](Communicator& own) {
        const Shape rows = of_rank.graph.value(of_rank.value(given)).desc.shape;
        Interpreter interpreter(of_rank.graph, {{of_rank.value(given), rows_of_rank(x, rows, &own)}});
        interpreter.run(&own);
        results[static_cast<std::size_t>(own.rank())] = interpreter.read(of_rank.value(value));
      });
      CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
      for (const Array& result : results) {
        REQUIRE(result.shape() == x.shape());
        for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i) {
          REQUIRE(result.as<double>()[i] == 16 * x.as<double>()[i]);
        }
      }
    }
  }
}

TEST_CASE("a network computes the same on ranks by any strategy for its layers") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(400)); ++seed) {
    CAPTURE(seed);
    Generator random(seed, 3);
    ParallelOptions parallel{.virtual_ranks = 4, .sync_batch_norm = true};
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
    ParallelOptions parallel{.virtual_ranks = 4};
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
