#pragma once
// How a value lies on the shards of a training that is divided over several ranks. A shard is an equal part of the
// samples; every rank has one, or several that follow one another.

#include <cstdint>
#include <memory>
#include <span>
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

/// A node before it is divided: its values as recorded, and how its inputs lie.
struct Division {
  std::span<const ValueDesc> inputs, outputs;
  std::span<const Layout> layouts;  ///< layouts of the inputs
  int shards = 1;

  bool any(Layout layout) const;
  /// The same with an equal part of the rows.
  Shape rows_of(const Shape& shape) const;
};

/// A node divided: what every shard computes.
struct Divided {
  std::vector<Layout> inputs;  ///< as each shard needs them: partial ones as they lie
  std::vector<Layout> outputs;
  std::shared_ptr<const Op> op = nullptr;  ///< null: the node's own
  std::vector<double> factors = {};        ///< that inputs are multiplied by first; empty: 1
  bool takes_number = false;               ///< the number of the shard (i32 scalar) is one more input, the last
};

}  // namespace braid
