// Every change of the graph of a rank is found.

#include "ops/rewrites/partition_check.h"

#include <doctest/doctest.h>

#include "tests/effort.h"
#include "tests/ops/partition/changed_graph.h"
#include "tests/ops/partition/random_network.h"

using namespace braid;
using namespace braid::testing;

TEST_CASE("each change of a divided network is found") {
  int found = 0, of_halos = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(some_of(200)); ++seed) {
    CAPTURE(seed);
    Generator random(seed, 4);
    const RandomNetwork network(seed);
    const int size = seed % 4 == 0 ? 2 : 4;
    const bool has_two_axes = seed % 4 > 1, exact = seed % 3 == 0;
    const ops::Partition partition{
        .ranks = size, .shards = exact ? 4 : size, .second_shards = has_two_axes ? 2 : 1, .exact = exact};
    StepGraph graph = RandomNetwork::along_random_axes(network.graph, seed);
    const std::size_t last = partition.mesh().axes() - 1;
    if (last > 0) graph = ops::partition(graph, partition, 0).graph;
    const RewrittenGraph divided = ops::partition(graph, partition, last);
    REQUIRE(ops::check_partition(graph, divided, partition, last) == "");
    for (const Change& change : changes(divided.graph, size, random)) {
      CAPTURE(change.node);
      CAPTURE(change.inputs);
      const std::optional<RewrittenGraph> other = changed(divided, change);
      if (!other.has_value()) continue;
      CHECK(!ops::check_partition(graph, *other, partition, last).empty());
      ++found;
      of_halos += dynamic_cast<const ops::FromNeighbour*>(divided.graph.node(change.node).op.get()) != nullptr;
    }
  }
  CHECK((found > 10'000 || !kEveryCase));
  CHECK((of_halos > 1'000 || !kEveryCase));
}
