// Every node is on both sides: as a tail on the left, as a head on the right. A matching grows by a path from a free
// tail to a free head along which edges are alternately outside and inside it: exchanging them gains one. Each phase
// finds the distances of all tails from the free ones, breadth first, and then, depth first, a maximal set of disjoint
// shortest paths; there are at most O(sqrt(n)) phases.

#include "scheduler/policies/bipartite_matching.h"

namespace braid::scheduler {
namespace {

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

std::vector<NodeId> maximum_matching(const Edges& edges) { return Matcher(edges).run(); }

}  // namespace braid::scheduler
