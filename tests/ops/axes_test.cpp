// Random networks compute the same however their nodes are divided (ops/rewrites/partition.h), and as the stages of a
// pipeline (runtime/compile/pipeline.h).

#include <doctest/doctest.h>

#include <algorithm>

#include "core/comm/local/local_ranks.h"
#include "ops/layout/strided_copy.h"
#include "runtime/compile/pipeline.h"
#include "tests/core/on_all.h"
#include "tests/effort.h"
#include "tests/ops/random_network.h"
#include "tests/ops/rounding.h"

using namespace braid;
using namespace braid::testing;

namespace {

void check_same(const std::vector<Array>& found, const std::vector<Array>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].shape() == expected[i].shape());
    CHECK(largest_difference(found[i], expected[i]) <= 1e-11 * std::max(1.0, largest(expected[i])));
  }
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
