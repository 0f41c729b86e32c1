#pragma once
// What convolutions and matrix products need of a GPU.

#include <algorithm>
#include <cstdint>

namespace braid::ops {

/// Thread blocks of a product [m,k]·[k,n], as libraries cut it: tiles of 128 x 128, and sums over k split into parts of
/// at least 1024 where there are few tiles. Weight gradients, which are small and sum over a whole batch, are cut most.
inline double matrix_blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kTile = 128, kLeastDepth = 1024;
  const auto tiles = [](std::int64_t extent) { return static_cast<double>((extent + kTile - 1) / kTile); };
  return tiles(m) * tiles(n) * static_cast<double>(std::max<std::int64_t>(1, k / kLeastDepth));
}

}  // namespace braid::ops
