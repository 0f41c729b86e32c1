#pragma once
// The part of a recorded value that a value of the divided graph has on a rank, and what nodes make of parts that they
// rearrange, exchange or add. The proof of a division (ops/rewrites/partition_check.h) follows parts through the graph.

#include <map>
#include <optional>

#include "ops/collective/collective.h"
#include "ops/layout/concat.h"
#include "ops/layout/strided_copy.h"
#include "ops/rewrites/partition.h"

namespace braid::ops {

/// Rows along an axis, counted from the first one of this rank.
struct Rows {
  std::int64_t begin = 0, end = 0;
  Rows shifted(std::int64_t by) const { return {begin + by, end + by}; }
  Rows both(Rows other) const { return {std::max(begin, other.begin), std::min(end, other.end)}; }
  bool empty() const { return begin >= end; }
  bool contain(Rows other) const { return other.empty() || (begin <= other.begin && other.end <= end); }
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// What a value of the divided graph has of a recorded value.
struct Part {
  enum class Kind {
    unknown,
    whole,    ///< all elements
    rows,     ///< some rows along layout.axis
    border,   ///< summands of a shard for its own rows and for some of its neighbours' (the halo of layout)
    summand,  ///< what a shard adds to a sum or a mean
    piece,    ///< the elements that this rank updates
    number,   ///< the number of a shard; with a recorded number, that of its part along this axis
    filling,  ///< a constant
  };
  Kind kind = Kind::unknown;
  ValueId of = kNoValue;
  Layout layout = {};
  std::int64_t shard = 0;      ///< counted from the first one of this rank
  Rows rows = {}, known = {};  ///< known: those rows of a border that are not left out
  double number = 1;           ///< a factor of the whole; the filling; what rows outside of the value are filled with
  std::int64_t outer = 1;      ///< elements are ordered by shard, then by as many outer places of the axis
  std::int64_t added = 0;      ///< the first elements of a summand that are sums already
};

using Parts = std::vector<Part>;

/// Parts of values along one axis of the mesh.
class RankParts {
 public:
  using Kind = Part::Kind;

  RankParts(const StepGraph& recorded, const StepGraph& divided, const Partition& partition, std::size_t axis)
      : recorded_(recorded),
        graph_(divided),
        partition_(partition),
        axis_(axis),
        along_(partition.along(axis)),
        shards_(partition.mesh().shards_along(axis)),
        per_rank_(shards_ / along_.ranks) {
    find_sums();
  }

  /// The outputs of a node that rearranges, exchanges or adds these inputs; none if it does something else.
  Parts rearranged(NodeId id, const Parts& given) const;
  /// Pieces, and borders that no neighbour adds to, as the rows that they are.
  Part rows_of(const Part& x) const;

  const Shape& shape(ValueId recorded) const { return recorded_.value(recorded).desc.shape; }
  /// Rows of each shard.
  std::int64_t each(ValueId recorded, int axis) const { return shape(recorded)[axis] / shards_; }
  Rows own_rows(ValueId recorded, int axis, std::int64_t shard) const {
    return Rows{0, each(recorded, axis)}.shifted(shard * each(recorded, axis));
  }
  Rows rows_of_rank(ValueId recorded, int axis) const { return {0, per_rank_ * each(recorded, axis)}; }
  bool splits(ValueId recorded, int axis) const {
    const Shape& x = shape(recorded);
    return axis >= 0 && axis < x.rank() && x[axis] % shards_ == 0;
  }
  static Part whole(ValueId of) { return {.kind = Kind::whole, .of = of}; }
  Part rows(ValueId of, int axis, Rows which) const {
    if (!splits(of, axis)) return {};
    return {.kind = Kind::rows, .of = of, .layout = Layout::split_along(static_cast<std::size_t>(axis)), .rows = which};
  }
  Part shard_rows(ValueId of, int axis, std::int64_t shard) const {
    return splits(of, axis) ? rows(of, axis, own_rows(of, axis, shard)) : Part{};
  }

  /// What a shard has of a value that lies so; or, without a shard, a rank.
  Part part_of(ValueId of, Layout layout, std::optional<std::int64_t> shard) const {
    if (layout == Layout::replicated) return whole(of);
    if (layout == Layout::pieces) return {.kind = Kind::piece, .of = of};
    if (is_partial(layout)) return {.kind = Kind::summand, .of = of, .layout = layout, .shard = shard.value_or(0)};
    const Rows its = shard.has_value() ? reach(of, layout, *shard) : rows_of_rank(of, layout.axis);
    if (!layout.has_halo()) return rows(of, layout.axis, its);
    return {.kind = Kind::border, .of = of, .layout = layout, .shard = *shard, .rows = its, .known = its};
  }
  /// The rows that a shard reads, or to which it adds something.
  Rows reach(ValueId of, Layout layout, std::int64_t shard) const {
    const Rows own = own_rows(of, layout.axis, shard);
    return {own.begin - layout.below, own.end + layout.above};
  }

  /// Whether a part is all of a value, or what a rank has instead of it.
  bool is_whole(const Part& part, double factor = 1) const {
    return is_everywhere(part, factor) || (is_own(part) && factor == 1);
  }
  static bool is_everywhere(const Part& part, double factor = 1) {
    return part.kind == Kind::whole && part.outer == 1 && part.number == factor;
  }
  /// Whether ranks keep a mean to themselves (Partition::local).
  bool is_own(const Part& part) const;
  /// Whether a value has the type and shape of its part, which reshapes and casts may have changed.
  bool has_shape(ValueId here, const Part& part) const;

 protected:
  const StepGraph &recorded_, &graph_;
  const Partition& partition_;
  const std::size_t axis_;  // of the mesh
  const MeshRanks along_;
  const std::int64_t shards_, per_rank_;

 private:
  /// All-reductions along the first axis, which may be made along both when the second is divided.
  void find_sums();
  Part number_of(const ShardIndex& number, const Parts& inputs) const;
  Part scaled(Part x, double factor) const;
  Part swapped(NodeId id, Part x, const PermuteAttributes& permute) const;
  std::optional<int> axis_before(ValueId of, std::int64_t outer) const;
  Part cut(NodeId id, Part x, const WindowAttributes& window) const;
  std::optional<Part> completed(std::span<const Part> borders) const;
  Part with_neighbours(const Parts& inputs) const;
  Part joined(NodeId id, const Parts& inputs, const ConcatAttributes& concat) const;
  Part of_neighbour(Part x, const Part& filling, const FromNeighbourAttributes& from) const;
  Part cut_out(const Part& x, const MeshRanks& along) const;
  Parts gathered(const Parts& pieces, const GatherPiecesAttributes& gather) const;
  Part taken(const Part& x, const Part& number, const Shards& shards) const;
  bool are_of_all_shards(const Parts& inputs, std::int64_t axis) const;
  Parts added(const Node& node, const Parts& inputs, const AllReduceAttributes& sum, bool scatters) const;
  Parts assigned(const Parts& inputs) const;

  std::map<ValueId, const Node*> sums_;  // recorded: what is summed → its all-reduction
};

}  // namespace braid::ops
