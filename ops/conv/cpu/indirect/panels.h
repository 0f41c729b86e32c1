#pragma once
// A filter as the right matrix of products: packed in panels of 32 columns.

#include <algorithm>

#include "core/base/shape.h"
#include "ops/conv/cpu/indirect/products.h"
#include "ops/kernels/cpu/kept_filter.h"
#include "ops/kernels/cpu/loops.h"

namespace braid::cpu::indirect {

/// Forward, columns are output channels, and rows input channels; backward data, the other way round.
enum class Direction { forward, backward };

struct Panels {
  Shape filter;  ///< [K,R,S,C]
  Direction direction;

  std::int64_t taps() const { return filter[1] * filter[2]; }
  std::int64_t depth() const { return filter[direction == Direction::forward ? 3 : 0]; }
  std::int64_t columns() const { return filter[direction == Direction::forward ? 0 : 3]; }
  std::int64_t count() const { return divide_up(columns(), kColumns); }
  /// Floats of a panel.
  std::int64_t size() const { return taps() * depth() * kColumns; }
  std::size_t bytes() const { return static_cast<std::size_t>(count() * size()) * sizeof(float); }

  /// Packs some taps and channels of a panel: [tap][channel][kColumns].
  void pack_part(const float* from, Part of_taps, Part channels, std::int64_t panel, float* to) const {
    const std::int64_t c = filter[3], filter_size = taps() * c, column = panel * kColumns;
    const std::int64_t width = std::min(kColumns, columns() - column);
    for (std::int64_t tap = of_taps.begin; tap < of_taps.begin + of_taps.size; ++tap, to += channels.size * kColumns) {
      if (direction == Direction::forward) {
        pack_transposed(from + column * filter_size + tap * c + channels.begin, filter_size, channels.size, width, to);
      } else {
        pack<kColumns>(from + channels.begin * filter_size + tap * c + column, filter_size, channels.size, width, to,
                       0);
      }
    }
  }
  /// Packs all panels, one after another.
  void pack_all(const float* from, int width, float* to) const {
    parallel_for(width, count(), 1, [&](std::int64_t panel, std::int64_t) {
      pack_part(from, {0, taps()}, {0, depth()}, panel, to + panel * size());
    });
  }
};

/// Memory for the panels of a filter that does not change.
inline std::shared_ptr<KeptFilter> kept_panels(const Panels& panels, const float* filter) {
  const bool is_forward = panels.direction == Direction::forward;
  return KeptFilter::of(filter, message(is_forward ? "forward " : "backward ", panels.filter), panels.bytes());
}

}  // namespace braid::cpu::indirect
