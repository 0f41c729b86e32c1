#pragma once
// Communication between the ranks of a training, as nodes of the step graph. ops/rewrites/partition emits them; every
// rank runs the same ones.

#include "core/graph/op.h"

namespace braid::ops {

/// The ranks of a collective, which lie along an axis of the mesh, or along both.
struct MeshRanks {
  static constexpr std::int64_t kBothAxes = 2;

  std::int64_t ranks = 1, stride = 1;  ///< RankGroup
  std::int64_t axis = 0;               ///< of the mesh, or kBothAxes
  static constexpr std::string_view kNames[] = {"ranks", "stride", "axis"};
  friend bool operator==(const MeshRanks&, const MeshRanks&) = default;
  RankGroup group() const { return {ranks, stride}; }
  bool lie_along(std::int64_t which) const { return axis == which || axis == kBothAxes; }
};

struct ShardIndex {
  std::int64_t index;     ///< number of the shard among those of its rank
  std::int64_t per_rank;  ///< shards of every rank
  MeshRanks along;
  static constexpr std::string_view kNames[] = {"index", "per_rank", "along"};
};

/// No input → the number of the shard among those of all ranks along an axis, an i32 scalar; or the number of a shard
/// along the first axis → that of the shard along both.
class ShardNumber final : public OpWith<ShardNumber, ShardIndex> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "shard_number"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

struct Shards {
  std::int64_t shards;
  static constexpr std::string_view kNames[] = {"shards"};
};

/// x [N,...], the number of a shard (i32 scalar) → its rows [N/shards,...].
class ShardRows final : public OpWith<ShardRows, Shards> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "shard_rows"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"_*,->_*"}; }
};

struct AllReduceAttributes {
  MeshRanks along;
  std::int64_t shards;  ///< number of shards of all ranks
  /// Whether to add along one binary tree over the shards, so that the sum has the same bits on any number of ranks.
  /// Else the engine adds, in whichever order is fastest.
  bool exact;
  std::vector<std::int64_t> divisors;  ///< per tensor, of its sum: 1, or the number of shards for a mean
  /// Elements of a single tensor that are added; the others stay those of the first summand. A count of 0: all.
  std::int64_t begin = 0, count = 0;
  static constexpr std::string_view kNames[] = {"along", "shards", "exact", "divisors", "begin", "count"};
  std::int64_t per_rank() const { return shards / along.ranks; }
};

/// For every tensor of a bucket, all f32 or all f64, the tensors of the rank's shards one after another → for every
/// tensor the sum or mean over all shards of all ranks. Only exact ones take several shards per rank.
class AllReduce final : public OpWith<AllReduce, AllReduceAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "all_reduce"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  /// If whole tensors are added, parts and summands along another axis of the mesh may be added separately. The layouts
  /// of several tensors would have to be equal.
  OpAxes axes(const NodeValues& node) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  /// One all-reduce by the engine; or, if exact, pieces of every block of leaves go to the ranks that add them, and
  /// their sums to all ranks.
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// The same sums and means → for every tensor the piece of this rank [piece_of(elements, ranks)] (Layout::pieces).
class ReduceScatter final : public OpWith<ReduceScatter, AllReduceAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "reduce_scatter"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues& node) const override { return {.linear = node.inputs.size()}; }
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// x, of any dtype → the piece of this rank.
class OwnPiece final : public OpWith<OwnPiece, MeshRanks> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "own_piece"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

struct GatherPiecesAttributes {
  MeshRanks along;
  std::vector<std::int64_t> sizes;  ///< elements of each tensor
  static constexpr std::string_view kNames[] = {"along", "sizes"};
};

/// The rank's pieces of tensors of one dtype → the tensors, flat.
class GatherPieces final : public OpWith<GatherPieces, GatherPiecesAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "gather_pieces"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
};

/// The rows of each of the rank's shards [n,...], of any dtype → the rows of all shards of all ranks [N,...].
class AllGather final : public OpWith<AllGather, MeshRanks> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "all_gather"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"_*->_*"}; }
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

struct AllToAllAttributes {
  MeshRanks along;
  std::int64_t from, to;  ///< axes along which values are split, before and after
  static constexpr std::string_view kNames[] = {"along", "from", "to"};
};

/// The parts that the rank's shards have of a value that is split along an axis, of any dtype → their parts if it is
/// split along another. Every rank sends to each other rank only what that needs.
class AllToAll final : public OpWith<AllToAll, AllToAllAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "all_to_all"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  /// Parts along other axes, and summands, may be exchanged separately.
  OpAxes axes(const NodeValues& node) const override;
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

struct FromNeighbourAttributes {
  MeshRanks along;
  std::int64_t from;  ///< -1: the rank before, 1: the rank after
  static constexpr std::string_view kNames[] = {"along", "from"};
};

/// x and another tensor like it, of any dtype → the neighbour's x, or on the first or last rank, which has none, the
/// other tensor.
class FromNeighbour final : public OpWith<FromNeighbour, FromNeighbourAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "from_neighbour"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"*->*"}; }
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

struct SendAttributes {
  std::int64_t to;   ///< rank
  std::int64_t tag;  ///< Message::tag
  static constexpr std::string_view kNames[] = {"to", "tag"};
};

/// x, of any dtype → nothing here; the other rank receives it.
class Send final : public OpWith<Send, SendAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "send"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

struct ReceiveAttributes {
  std::int64_t from;  ///< rank
  std::int64_t tag;
  ValueDesc output;
  static constexpr std::string_view kNames[] = {"from", "tag", "output"};
};

/// No input → what the other rank sends.
class Receive final : public OpWith<Receive, ReceiveAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "receive"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Communication communication(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// x → its mean over the ranks, if each has its own (Partition::local). It has no kernel: what a shard has is a view of
/// x.
class AverageOverRanks final : public OpWith<AverageOverRanks> {
 public:
  std::string_view name() const override { return "average_over_ranks"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  std::optional<Divided> divide(const Division&) const override {
    return Divided{.inputs = {Layout::replicated}, .outputs = {Layout::partial_mean}};
  }
};

/// The tree that fixes the order of exact sums adds the sum of the first 2^k of n > 1 leaves, the most that are fewer
/// than n, to the sum of the rest. So aligned blocks of 2^j leaves are subtrees, if their size divides n.
constexpr std::int64_t left_leaves(std::int64_t leaves) {
  std::int64_t left = 1;
  while (2 * left < leaves) left *= 2;
  return left;
}

/// Leaves of such a block that a rank adds before it sends anything.
constexpr std::int64_t leaves_per_block(std::int64_t per_rank) { return per_rank & -per_rank; }

}  // namespace braid::ops
