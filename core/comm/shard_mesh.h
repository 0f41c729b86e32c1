#pragma once
// The shards of a training form a mesh of one or two axes: shard s has place s / second along the first axis and
// s % second along the second. Values have a layout along each axis, and nodes an axis of their op.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/device/link.h"

namespace braid {

inline constexpr std::size_t kMeshAxes = 2;
template <class T>
using PerMeshAxis = std::array<T, kMeshAxes>;

struct ShardMesh {
  std::int64_t shards = 1;
  std::int64_t second = 1;  ///< shards along the second axis, which divide all; 1: there is one axis
  std::int64_t ranks = 1;   ///< divide the shards

  std::size_t axes() const { return second > 1 ? 2 : 1; }
  std::int64_t shards_along(std::size_t axis) const { return axis == 0 ? shards / second : second; }
  /// The ranks along an axis: as many as possible along the first.
  RankGroup ranks_along(std::size_t axis) const {
    const std::int64_t first = std::gcd(ranks, shards / second), others = ranks / first;
    return axis == 0 ? RankGroup{first, others} : RankGroup{others, 1};
  }
};

}  // namespace braid
