#pragma once
// How much concurrent nodes slow each other down beyond sharing the capacity: through memory bandwidth, caches, clocks.
// Measured pair by pair (scheduler/costs/profile.h); pairs that were not measured do not interfere. Nodes with the same
// op, shapes and implementation are of one kind, so a measurement of one pair holds for all pairs of the same kinds.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/step_graph.h"

namespace braid::scheduler {

class Interference {
 public:
  /// Sets the kind of a node when it runs with `implementation`.
  void set_kind(NodeId node, int implementation, std::int32_t kind);
  /// The slowdown of a node of one kind alongside one of the other, beyond what its share of the capacity explains.
  /// Below 1 the two share better than in proportion, but neither runs faster than alone.
  void set_factor(std::int32_t kind, std::int32_t other, double factor);

  /// 1 if nothing is known.
  double factor(NodeId node, int implementation, NodeId other, int other_implementation) const;
  /// The same for a graph whose node i is node origin[i] of this one; kNoNode: a node without interference.
  Interference reindexed(std::span<const NodeId> origin) const;
  bool empty() const { return factors_.empty(); }
  /// Per kind, for those that have factors below 1: their least product with up to `others` other nodes.
  std::unordered_map<std::int32_t, double> least_factors(int others) const;
  /// The kind of a node with one implementation; -1 if nothing is known.
  std::int32_t kind(NodeId node, int implementation) const;

 private:
  static constexpr std::int32_t kUnknown = -1;
  static std::uint64_t key(std::int32_t kind, std::int32_t other) {
    return std::uint64_t{static_cast<std::uint32_t>(kind)} << 32 | static_cast<std::uint32_t>(other);
  }

  std::vector<std::vector<std::int32_t>> kinds_;  // per node and implementation
  std::unordered_map<std::uint64_t, double> factors_;
};

}  // namespace braid::scheduler
