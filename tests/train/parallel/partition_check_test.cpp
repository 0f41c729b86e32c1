// Changes of training steps, with optimizers and what ranks exchange instead of gradients, are found.

#include "ops/rewrites/partition_check.h"

#include <doctest/doctest.h>

#include "autograd/functions.h"
#include "core/comm/local/local_ranks.h"
#include "models/layers/layers.h"
#include "runtime/session.h"
#include "tests/ops/partition/changed_graph.h"
#include "train/optimizer.h"

using namespace braid;
using namespace braid::testing;

namespace {

constexpr int kTrainingRanks = 4;

/// Two steps of a small network, in one graph.
StepGraph two_steps(ParallelOptions parallel, DType dtype) {
  const auto ranks = std::make_shared<LocalRanks>(kTrainingRanks);
  parallel.communicator = {ranks, &ranks->of(0)};
  Session session({.device = "cpu", .parallel = parallel});
  Sequential network(session);
  network.append<ConvLayer>(4, 8, 3, Conv2dOptions{.padding = 1});
  network.append<BatchNormLayer>(8, Activation::relu);
  network.append<ConvLayer>(8, 8, 3, Conv2dOptions{.padding = 1});
  network.append<FunctionLayer>(global_avg_pool);
  network.append<LinearLayer>(8, 12);
  SGD sgd(network.parameters(), {.lr = 0.1, .momentum = 0.9});
  sgd.clip_norm(1);
  Step step = session.step();
  for (int i = 0; i < 2; ++i) {
    const Tensor x = cast(place(Array(DType::f32, {8, 8, 8, 4}), Layout::split), dtype);
    backward(cross_entropy(network(x), place(Array(DType::i32, {8}), Layout::split)));
    sgd.step();
  }
  StepGraph graph = session.tape().graph();
  step.discard();
  return graph;
}

}  // namespace

TEST_CASE("each change of a training step is found") {
  struct Row {
    ParallelOptions parallel = {};
    ops::Partition partition = {.ranks = kTrainingRanks, .shards = kTrainingRanks};
    DType dtype = DType::f32;
  };
  Strategy along_channels{{"0", "c"}, {"1", "c"}, {"2", "h"}, {"4", "c"}};
  for (const Row& row :
       {Row{},
        {.partition = {.ranks = kTrainingRanks, .shards = 8, .exact = true}, .dtype = DType::bf16},
        {.partition = {.ranks = kTrainingRanks, .shards = kTrainingRanks, .bucket_bytes = 500, .slice_bytes = 400}},
        {.parallel = {.zero = Sharded::parameters}},
        {.parallel = {.layers = along_channels}},
        {.parallel = {.compression = {.method = Compression::Method::top_k, .ratio = 0.1}}},
        {.parallel = {.average_every = 2},
        .partition = {.ranks = kTrainingRanks, .shards = kTrainingRanks, .local = true}}}) {
    const StepGraph graph = two_steps(row.parallel, row.dtype);
    const RewrittenGraph divided = ops::partition(graph, row.partition);
    REQUIRE(ops::check_partition(graph, divided, row.partition) == "");
    Generator random(31, 1);
    for (int round = 0; round < 5; ++round) {
      for (const Change& change : changes(divided.graph, kTrainingRanks, random)) {
        CAPTURE(change.node);
        CAPTURE(change.inputs);
        const std::optional<RewrittenGraph> other = changed(divided, change);
        CHECK((!other.has_value() || !ops::check_partition(graph, *other, row.partition).empty()));
      }
    }
  }
}
