#pragma once
// A copy of a recorded graph for one rank, and the nodes that rearrange what its shards have: rows, halos, and axes
// that change places.

#include "core/graph/graph_copy.h"
#include "ops/collective/collective.h"

namespace braid::ops {

class ShardCopy : public GraphCopy {
 public:
  /// `along`: the ranks along the axis of the mesh that is divided.
  ShardCopy(const StepGraph& recorded, const MeshRanks& along) : GraphCopy(recorded), along_(along) {}

  /// The recorded node that nodes are made of from now on.
  void begin(NodeId recorded) { made_of_ = recorded; }
  NodeId made_of() const { return made_of_; }

  const ValueDesc& desc(ValueId here) { return graph().value(here).desc; }
  /// Adds a node of values here: of gradients if the first is one.
  ValueId apply(OpPtr op, const std::vector<ValueId>& inputs) {
    return add(std::move(op), inputs, kind(inputs.front()), made_of_);
  }
  ValueId reshaped(ValueId here, const Shape& shape);
  /// [a,b,…] → [b,a,…]
  ValueId swapped(ValueId here, std::int64_t a, std::int64_t b);
  /// Rows [begin, begin + count) along an axis, zero outside.
  ValueId rows(ValueId here, int axis, std::int64_t begin, std::int64_t count);
  ValueId join(const std::vector<ValueId>& values, int axis);

  /// Parts of the shards of this rank with copies of their neighbours' rows; `fill` where there is no neighbour.
  std::vector<ValueId> with_halos(const std::vector<ValueId>& parts, Layout halo, double fill);
  /// Own rows, with what other shards have for them.
  std::vector<ValueId> add_halos(const std::vector<ValueId>& parts, Layout halo);

 private:
  ValueKind kind(ValueId here) {
    return graph().value(here).kind == ValueKind::gradient ? ValueKind::gradient : ValueKind::activation;
  }
  /// What the last shard of the rank before has, or the first one of the rank after; `fill` where there is none.
  ValueId of_neighbour(int direction, ValueId here, double fill);

  const MeshRanks along_;
  NodeId made_of_ = 0;
};

}  // namespace braid::ops
