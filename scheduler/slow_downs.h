#pragma once
// How much nodes hinder each other beyond the sharing of capacity: by memory bandwidth, caches, clocks. Measured, pair
// by pair (scheduler/profile.h); pairs that were not measured do not hinder each other.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/step_graph.h"

namespace braid {

class SlowDowns {
 public:
  /// While `node` runs in way `choice` beside `other` in way `other_choice`, it takes so many times as long as alone.
  void set(NodeId node, int choice, NodeId other, int other_choice, double factor);
  /// 1 if nothing is known.
  double factor(NodeId node, int choice, NodeId other, int other_choice) const;
  /// The same for a graph in which node `id` is called names[id].
  SlowDowns renamed(std::span<const NodeId> names) const;
  bool empty() const { return factors_.empty(); }

 private:
  struct Key {
    NodeId node, other;
    int choice, other_choice;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, double, KeyHash> factors_;
};

}  // namespace braid
