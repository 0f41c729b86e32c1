#pragma once
// How a value lies on the shards of a training that is divided over several ranks, and how nodes are divided. A shard is
// an equal part of the samples; every rank has one, or several that follow one another.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/kernel.h"

namespace braid {

class Op;

enum class Layout : std::uint8_t {
  replicated,    ///< every rank has all of it
  split,         ///< every shard has its rows: an equal part of the first axis, the first shard the first rows
  partial_sum,   ///< every shard has a tensor of the same shape; the value is their sum
  partial_mean,  ///< likewise; the value is their mean
  pieces,        ///< every rank has an equal piece of its elements (piece_of)
};

constexpr std::string_view name_of(Layout layout) {
  constexpr std::string_view kNames[] = {"replicated", "split", "partial sum", "partial mean", "pieces"};
  return kNames[static_cast<int>(layout)];
}

constexpr bool is_partial(Layout layout) { return layout == Layout::partial_sum || layout == Layout::partial_mean; }

/// The number of elements that each rank has of a tensor in pieces, the first rank the first ones. Missing elements of
/// the last ranks are zero.
constexpr std::int64_t piece_of(std::int64_t elements, std::int64_t ranks) { return (elements + ranks - 1) / ranks; }

/// The axes that the values of a node have in common, as in "nc,kc->nk": inputs and outputs, separated by commas, the
/// last of either for all that follow. A letter is an axis of the op: a part of it in the inputs makes the same part of
/// the outputs that have it, and a summand of those that lack it. Further signs:
///     _    an axis along which the op is not divided
///     ...  any number of those
///     *    any number of axes, named by their places
///     ~    before a value: a mean over the axes that it lacks, or the gradient of one
///     ?    before an input: taken as it lies
struct OpAxes {
  std::string notation = {};  ///< empty: not divided
  /// The op is linear in so many first inputs: it may also be applied to the summands of sums or means.
  std::size_t linear = 0;

  /// The names that * gives to the axes of a value.
  static std::string by_place(int rank);
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
  bool takes_number = false;               ///< the number of the shard (i32 scalar) is one more input, the last
};

/// A name per axis of a value, and the sign before them or 0.
struct ValueAxes {
  std::string names;
  char sign = 0;
};

struct NodeAxes {
  std::vector<ValueAxes> inputs, outputs;
};

/// The axes of a node's values as its op names them, all _ if it is not divided.
NodeAxes named_axes(std::string_view notation, const NodeValues& node);

/// An op divided along the axis that is the first one of an input that is split: the first of all its values that have
/// it, of an extent that divides evenly. Nothing if there is none.
std::optional<Divided> divide_by_axes(const Op& op, const Division& node);

/// Updates of tensors in pieces, which follow `scalars` inputs: the same on pieces. Nothing if none is in pieces.
std::optional<Divided> divide_by_pieces(const Division& node, std::size_t scalars);

}  // namespace braid
