#pragma once
// Makes the step of one rank from the step of all ranks: samples are split over the shards, parameters are on every
// rank, and nodes for which the recorded graph says so are divided along another axis (Node::axis). From the axes that
// ops name follows how they are divided (Op::axes). Where a value has another layout than a reader needs, communication
// is inserted. This is a rewrite of the recorded step, after the gradients, so that gradients need no separate rules:
// the gradient of a filter is a partial sum over the shards, and its all-reduce follows from that.

#include "core/graph/graph_copy.h"
#include "ops/collective/collective.h"

namespace braid::ops {

struct Partition {
  std::int64_t ranks = 1;
  std::int64_t shards = 1;         ///< number of shards of all ranks
  std::int64_t second_shards = 1;  ///< ShardMesh::second
  bool exact = false;              ///< AllReduceAttributes::exact
  /// Sums and means are communicated together, in the order in which they are made, until they have this many bytes.
  /// 0: each alone.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  /// The number of sums and means in each bucket, instead of bucket_bytes. A value that is read before its bucket is
  /// full is communicated at that point. Empty: bucket_bytes decides.
  std::vector<std::int32_t> buckets = {};
  /// Larger sums and means are in no bucket, but all-reduced in slices of this many bytes, so that the link is soon
  /// free for what is needed first. 0: whole.
  std::int64_t slice_bytes = 0;
  /// Whether the backward pass gathers tensors in pieces again, instead of keeping them from the forward pass.
  bool gathers_again = false;
  /// Whether ranks, which have a shard each, do not add gradients and other partial values, unless their elements are
  /// results, but keep their own: persistent tensors then differ. Only outputs of AverageOverRanks are exchanged.
  bool local = false;

  ShardMesh mesh() const { return {.shards = shards, .second = second_shards, .ranks = ranks}; }
  /// The ranks along an axis.
  MeshRanks along(std::size_t axis) const {
    const RankGroup group = mesh().ranks_along(axis);
    return {group.ranks, group.stride, static_cast<std::int64_t>(axis)};
  }
};

/// Tensors in pieces are gathered where they are read, and updated in pieces by ops that can (divide_by_tensors), from
/// sums that are scattered. Inputs and tensors that are split have the rows of all ranks in the recorded graph, and
/// those of this rank in the result. Results, kept values and single elements are there whole on every rank.
/// Divides along one axis of the mesh; the second after, and in the result of, the first. Then gradients that are
/// summed along both are all-reduced once, in the buckets, unless sums are exact. Those that are summed along the first
/// axis alone are communicated one by one. Pieces lie along the first axis.
RewrittenGraph partition(const StepGraph& recorded, const Partition& partition, std::size_t axis = 0);

}  // namespace braid::ops
