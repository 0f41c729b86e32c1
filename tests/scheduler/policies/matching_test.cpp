#include "scheduler/policies/matching.h"

#include <doctest/doctest.h>

#include "tests/scheduler/oracle.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {
namespace {

using Predecessors = std::vector<std::vector<NodeId>>;

/// A DAG in which every pair has an edge in `percent` of cases.
Edges random_edges(std::uint64_t seed, int nodes, std::uint32_t percent) {
  Generator random(seed);
  Predecessors predecessors(nodes);
  for (NodeId head = 0; head < nodes; ++head) {
    for (NodeId tail = 0; tail < head; ++tail) {
      if (random.below(100) < percent) predecessors[head].push_back(tail);
    }
  }
  return Edges::from_predecessors(predecessors);
}

Relation relation_of(const Edges& edges) {
  Relation relation(edges.node_count());
  for (NodeId node = 0; node < edges.node_count(); ++node) {
    for (const NodeId successor : edges.successors(node)) relation[node].set(successor);
  }
  return relation;
}

/// The fewest paths that cover nodes [node, end), where paths with the given ends can be continued.
int fewest_paths(const Edges& edges, NodeId node, std::vector<NodeId>& ends) {
  if (node == edges.node_count()) return static_cast<int>(ends.size());
  ends.push_back(node);
  int fewest = fewest_paths(edges, node + 1, ends);
  ends.pop_back();
  for (NodeId& end : ends) {
    if (!std::ranges::binary_search(edges.predecessors(node), end)) continue;
    const NodeId before = std::exchange(end, node);
    fewest = std::min(fewest, fewest_paths(edges, node + 1, ends));
    end = before;
  }
  return fewest;
}

std::ptrdiff_t size_of_matching(const std::vector<NodeId>& next) {
  return std::ssize(next) - std::ranges::count(next, kNoNode);
}

}  // namespace

TEST_CASE("the transitive reduction keeps the edges that no longer path implies") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Edges edges = random_edges(seed, static_cast<int>(seed % 60), 2 + seed % 40);
    const Relation direct = relation_of(edges), reduced = relation_of(transitive_reduction(edges));
    Relation reaches = direct;
    close(reaches);
    for (std::size_t tail = 0; tail < direct.size(); ++tail) {
      for (std::size_t head = 0; head < direct.size(); ++head) {
        bool implied = false;
        for (std::size_t via = 0; via < direct.size(); ++via) implied |= reaches[tail][via] && reaches[via][head];
        REQUIRE(reduced[tail][head] == (direct[tail][head] && !implied));
      }
    }
  }
}

TEST_CASE("the transitive reduction of a large graph does not depend on where its blocks of columns end") {
  constexpr NodeId kNodes = 10000;  // chains of even and of odd nodes, tied at three places
  constexpr NodeId kTies[] = {10, 4095, 9000};
  Generator random(1);
  Predecessors reduced(kNodes), all(kNodes);
  for (NodeId node = 2; node < kNodes; ++node) reduced[node] = {node - 2};
  for (const NodeId tie : kTies) reduced[tie + 1].push_back(tie);
  for (NodeId node = 0; node < kNodes; ++node) {
    all[node] = reduced[node];
    for (int more = 0; node >= 4 && more < 3; ++more) {  // nodes of the same chain, but not the neighbour
      all[node].push_back(node - 2 * (2 + static_cast<NodeId>(random.below(static_cast<std::uint32_t>(node) / 2 - 1))));
    }
    std::ranges::sort(all[node]);
    all[node].erase(std::unique(all[node].begin(), all[node].end()), all[node].end());
  }
  for (const NodeId tie : kTies) {  // from before a tie to behind it
    all[tie + 3].push_back(tie - 2);
    std::ranges::sort(all[tie + 3]);
    all[tie + 3].erase(std::unique(all[tie + 3].begin(), all[tie + 3].end()), all[tie + 3].end());
  }
  const Edges edges = Edges::from_predecessors(all), expected = Edges::from_predecessors(reduced);
  REQUIRE(edges.predecessor.size() > 3 * kNodes);
  const Edges result = transitive_reduction(edges);
  CHECK(result.predecessor == expected.predecessor);
  CHECK(result.predecessor_begin == expected.predecessor_begin);
}

TEST_CASE("the edges of a maximum matching form the fewest paths that cover all nodes") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const int nodes = static_cast<int>(seed % 10);
    const Edges edges = random_edges(seed, nodes, 5 + seed % 60);
    const std::vector<NodeId> next = maximum_matching(edges);
    std::vector<bool> entered(nodes);
    for (NodeId tail = 0; tail < nodes; ++tail) {
      if (next[tail] == kNoNode) continue;
      REQUIRE(std::ranges::binary_search(edges.successors(tail), next[tail]));
      REQUIRE(!entered[next[tail]]);
      entered[next[tail]] = true;
    }
    std::vector<NodeId> ends;
    REQUIRE(nodes - size_of_matching(next) == fewest_paths(edges, 0, ends));
  }
}

TEST_CASE("a matching that has to be changed from end to end grows all the same") {
  constexpr NodeId kTails = 50000;  // tail i can have head i or i + 1; the last tail only head 0
  Predecessors predecessors(2 * kTails + 2);
  for (NodeId i = 0; i <= kTails; ++i) {
    auto& tails = predecessors[kTails + 1 + i];
    if (i > 0) tails.push_back(i - 1);
    if (i < kTails) tails.push_back(i);
    if (i == 0) tails.push_back(kTails);
  }
  CHECK(size_of_matching(maximum_matching(Edges::from_predecessors(predecessors))) == kTails + 1);
}

}  // namespace braid::scheduler::testing
