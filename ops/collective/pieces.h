#pragma once
// How pieces of tensors lie in the buffers of collectives (Layout::pieces).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/layout.h"

namespace braid::ops {

/// A rank's pieces of several tensors are contiguous, and ranks follow one another.
struct Pieces {
  std::int64_t ranks;
  std::vector<std::int64_t> sizes;  ///< elements of the tensors

  /// Elements of one rank, including the padding of the last pieces.
  std::int64_t size() const {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) sum += piece_of(size, ranks);
    return sum;
  }
  /// Calls visit(tensor, its first element, elements, where the piece begins in the buffer) for the pieces of a rank.
  template <class Visit>
  void of(std::int64_t rank, const Visit& visit) const {
    std::int64_t place = rank * size();
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const std::int64_t piece = piece_of(sizes[t], ranks), begin = std::min(rank * piece, sizes[t]);
      visit(t, begin, std::min(piece, sizes[t] - begin), place);
      place += piece;
    }
  }
};

}  // namespace braid::ops
