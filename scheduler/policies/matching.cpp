// Stream assignment of Nimble (Kwon et al., "Nimble: lightweight and parallel GPU task scheduling for deep learning",
// 2020, section 4.2). A maximum matching on the transitive reduction of the graph covers it by the fewest paths. With a
// stream for each path, any two nodes that could run at the same time are on different streams, and no such assignment
// needs fewer waits: one for each edge of the reduction outside of the matching. Nodes are placed in recording order.
// Where there are more paths than streams, each path joins the stream that is free first when its first node is placed.

#include "scheduler/policies/matching.h"

#include <algorithm>
#include <bitset>

#include "scheduler/policies/timeline.h"

namespace braid::scheduler {
namespace {

constexpr NodeId kColumns = 4096;
using Row = std::bitset<kColumns>;  // the nodes of one block that reach a node

/// Every node is on both sides: as a tail on the left, as a head on the right. A matching grows by a path from a free
/// tail to a free head along which edges are alternately outside and inside it: exchanging them gains one. Each phase
/// finds the distances of all tails from the free ones, breadth first, and then, depth first, a maximal set of disjoint
/// shortest paths; there are at most O(sqrt(n)) phases.
class Matcher {
 public:
  explicit Matcher(const Edges& edges)
      : edges_(edges),
        nodes_(edges.node_count()),
        next_(nodes_, kNoNode),
        previous_(nodes_, kNoNode),
        looked_at_(nodes_) {}

  std::vector<NodeId> run() {
    for (bool grows = true; grows;) {
      find_distances();
      looked_at_.assign(nodes_, 0);
      grows = false;
      for (NodeId tail = 0; tail < nodes_; ++tail) {
        if (next_[tail] == kNoNode && augment(tail)) grows = true;
      }
    }
    return std::move(next_);
  }

 private:
  void find_distances() {
    distance_.assign(nodes_, -1);
    std::vector<NodeId> queue;
    for (NodeId tail = 0; tail < nodes_; ++tail) {
      if (next_[tail] != kNoNode) continue;
      distance_[tail] = 0;
      queue.push_back(tail);
    }
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const NodeId head : edges_.successors(queue[i])) {
        const NodeId other = previous_[head];
        if (other == kNoNode || distance_[other] >= 0) continue;
        distance_[other] = distance_[queue[i]] + 1;
        queue.push_back(other);
      }
    }
  }

  /// Looks for a path from a free tail to a free head and exchanges its edges. Paths may be long, so the stack is
  /// explicit. An edge that led nowhere is not tried again in this phase.
  bool augment(NodeId free_tail) {
    path_.assign(1, free_tail);
    while (!path_.empty()) {
      const NodeId tail = path_.back();
      const auto heads = edges_.successors(tail);
      if (looked_at_[tail] == heads.size()) {
        path_.pop_back();
        continue;
      }
      const NodeId other = previous_[heads[looked_at_[tail]++]];
      if (other == kNoNode) {
        for (const NodeId node : path_) {
          next_[node] = edges_.successors(node)[looked_at_[node] - 1];
          previous_[next_[node]] = node;
        }
        return true;
      }
      if (distance_[other] == distance_[tail] + 1) path_.push_back(other);
    }
    return false;
  }

  const Edges& edges_;
  const NodeId nodes_;
  std::vector<NodeId> next_, previous_;  // the other end of the edge that leaves or enters a node
  std::vector<int> distance_;            // per tail: from the free tails, in edges of the matching; -1: out of reach
  std::vector<std::size_t> looked_at_;   // per tail: how many of its edges
  std::vector<NodeId> path_;             // its tails
};

}  // namespace

/// An edge is implied by a longer path if its tail reaches another predecessor of its head. Which nodes reach which is
/// a matrix of bits, too large to be kept for a large graph; it is made in blocks of columns, each in one pass over the
/// nodes, and used at once.
Edges transitive_reduction(const Edges& edges) {
  const NodeId nodes = edges.node_count();
  std::vector<std::vector<NodeId>> kept(nodes);
  std::vector<Row> rows(nodes);
  for (NodeId begin = 0; begin < nodes; begin += kColumns) {
    for (NodeId head = begin; head < nodes; ++head) {
      // Predecessors come in ascending order; those before the block are not in it.
      const auto all = edges.predecessors(head);
      const auto first = std::ranges::lower_bound(all, begin);
      Row& row = rows[head].reset();
      for (auto tail = first; tail != all.end(); ++tail) row |= rows[*tail];
      for (auto tail = first; tail != all.end() && *tail - begin < kColumns; ++tail) {
        if (!row[*tail - begin]) kept[head].push_back(*tail);
      }
      for (auto tail = first; tail != all.end() && *tail - begin < kColumns; ++tail) row.set(*tail - begin);
    }
  }
  return Edges::from_predecessors(kept);
}

std::vector<NodeId> maximum_matching(const Edges& edges) { return Matcher(edges).run(); }

Schedule matching(const Problem& problem) {
  const std::vector<NodeId> next = maximum_matching(transitive_reduction(problem.edges));
  std::vector<int> streams(problem.graph.node_count(), -1);  // per node: the stream of its path, once that has one
  Timeline timeline(problem);
  for (const NodeId node : problem.graph.launched_nodes()) {
    if (streams[node] < 0) streams[node] = timeline.first_free();
    timeline.place(node, streams[node]);
    if (next[node] != kNoNode) streams[next[node]] = streams[node];
  }
  return std::move(timeline).finish();
}

}  // namespace braid::scheduler
