#pragma once
// How a value lies on the shards of a training that is divided over several ranks, and how nodes are divided. A shard
// has an equal part of the samples, or of another axis; every rank has one, or several that follow one another.

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/shard_mesh.h"
#include "core/device/kernel.h"

namespace braid {

class Op;

struct Layout {
  enum class Kind : std::uint8_t {
    replicated,    ///< every rank has all of it
    split,         ///< every shard has its rows: an equal part of an axis, the first shard the first rows
    partial_sum,   ///< every shard has a tensor of the same shape; the value is their sum
    partial_mean,  ///< likewise; the value is their mean
    pieces,        ///< every rank has an equal piece of its elements (piece_of)
  };
  Kind kind = Kind::replicated;
  std::int8_t axis = 0;  ///< that is split
  /// A halo: how many rows of the shards before and after each shard has in addition to its own. Negative: how many of
  /// its own it lacks. What a node reads are copies of these rows. What it writes is added to them.
  std::int32_t below = 0, above = 0;

  static const Layout replicated, split, partial_sum, partial_mean, pieces;  ///< split: along the first axis
  static constexpr Layout split_along(std::size_t axis) { return {Kind::split, static_cast<std::int8_t>(axis)}; }
  constexpr bool is_split() const { return kind == Kind::split; }
  constexpr bool has_halo() const { return below != 0 || above != 0; }
  constexpr Layout without_halo() const { return {kind, axis}; }
  friend constexpr bool operator==(const Layout&, const Layout&) = default;
  friend constexpr auto operator<=>(const Layout&, const Layout&) = default;
};

inline constexpr Layout Layout::replicated{Kind::replicated}, Layout::split{Kind::split},
    Layout::partial_sum{Kind::partial_sum}, Layout::partial_mean{Kind::partial_mean}, Layout::pieces{Kind::pieces};

/// One for each axis of the mesh.
using Layouts = PerMeshAxis<Layout>;

constexpr Layouts on_all_axes(Layout layout) { return {layout, layout}; }
/// Whether all shards have all of the value.
constexpr bool is_replicated(const Layouts& layouts) { return layouts == on_all_axes(Layout::replicated); }

constexpr std::string_view name_of(Layout layout) {
  constexpr std::string_view kNames[] = {"replicated", "split", "partial sum", "partial mean", "pieces"};
  return kNames[static_cast<int>(layout.kind)];
}

constexpr bool is_partial(Layout layout) { return layout == Layout::partial_sum || layout == Layout::partial_mean; }

/// The number of elements that each rank has of a tensor in pieces, the first rank the first ones. Missing elements of
/// the last ranks are zero.
constexpr std::int64_t piece_of(std::int64_t elements, std::int64_t ranks) { return (elements + ranks - 1) / ranks; }

/// The axes that the values of a node have in common, as in "nc,kc->nk": inputs and outputs, separated by commas, the
/// last of either for all that follow. A letter is an axis of the op: a part of it in the inputs makes the same part of
/// the outputs that have it, and a summand of those that lack it. Further signs:
///     H    a capital: windows over the axis, which may overlap (Windows)
///     _    an axis along which the op is not divided
///     ...  any number of those
///     *    any number of axes, named by their places
///     ~    before a value: a mean over the axes that it lacks, or the gradient of one
///     ?    before an input: taken as it lies
struct OpAxes {
  /// Row i of the axis belongs to rows [i·stride − padding, … + extent) of the values that have windows over it.
  struct Windows {
    char axis;
    std::int64_t extent, stride, padding;
  };
  std::string notation = {};  ///< empty: not divided
  /// The op is linear in its first `linear` inputs, taken together: it may also be applied to the summands of sums or
  /// means.
  std::size_t linear = 0;
  std::vector<Windows> windows = {};
  double fill = 0;  ///< what windows read outside of inputs

  /// The names that * gives to the axes of a value.
  static std::string by_place(int rank);
  /// An input and an output of this rank with the same axes; not divided along one of them, which may be counted from
  /// the last (-1).
  static OpAxes all_but(int axis, int rank);
};

/// The values of a node.
struct NodeValues {
  std::span<const ValueDesc> inputs, outputs;
};

/// A node before it is divided: its values as recorded, and how its inputs lie.
struct Division : NodeValues {
  std::span<const Layout> layouts;  ///< layouts of the inputs
  int shards = 1;
};

/// A node divided: what every shard computes.
struct Divided {
  std::vector<Layout> inputs;  ///< as each shard needs them: partial ones as they lie
  std::vector<Layout> outputs;
  std::shared_ptr<const Op> op = nullptr;  ///< null: the node's own
  std::vector<double> factors = {};        ///< that inputs are multiplied by first; empty: 1
  double fill = 0;                         ///< what halos have outside of inputs
  /// This input is the number of the shard (i32 scalar): one more than the node has, or the number of the shard that
  /// is divided again.
  std::optional<std::size_t> number = std::nullopt;
};

/// A name per axis of a value, and the sign before them or 0.
struct ValueAxes {
  std::string names;
  char sign = 0;
};

struct NodeAxes {
  std::vector<ValueAxes> inputs, outputs;
};

/// The axes of a node's values as its op names them. All are _ if the notation does not fit their ranks.
NodeAxes named_axes(std::string_view notation, const NodeValues& node);

/// The axis of a node that is a dimension of its outputs: n (samples), h (height), w (width) or c (channels). 0: none;
/// _ stays as it is.
char axis_of(char dimension, const Op& op, const NodeValues& node);
/// The same for each axis of the mesh, of as many dimensions as there are; 0 for others.
PerMeshAxis<char> axes_of(std::string_view dimensions, const Op& op, const NodeValues& node);

/// The layouts of a node's inputs if those that have this axis are split along it, and no others.
std::vector<Layout> layouts_along(char axis, const Op& op, const NodeValues& node, std::span<const Layout> layouts);

/// An op divided along the axis along which an input is split. Nothing if there is none that all values divide evenly.
std::optional<Divided> divide_by_axes(const Op& op, const Division& node);

/// How a layer's parameters lie that are split with its channels: c among its dimensions (Strategy).
Layouts parameter_layouts(std::string_view dimensions);

/// Updates of tensors that are all in pieces or all split, which follow `scalars` inputs: the same of each rank's
/// parts. Nothing if they are replicated.
std::optional<Divided> divide_by_tensors(const Division& node, std::size_t scalars);

}  // namespace braid
