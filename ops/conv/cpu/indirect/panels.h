#pragma once
// A filter as the right matrix of products: packed in panels of 32 columns.

#include <algorithm>

#include "core/base/shape.h"
#include "ops/conv/cpu/indirect/products.h"
#include "ops/kernels/cpu/kept_filter.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/kernels.h"

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

/// What convolutions by panels have in common: their addresses, and panels that are kept if the filter does not change.
class PanelKernel : public Kernel {
 public:
  bool keeps_filter() const final { return keeps_filter_; }
  void keep_filter(std::uint64_t version) final {
    kept_->update(version, [&] { panels_.pack_all(filter_, width_, static_cast<float*>(kept_->data())); });
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* /*workspace*/) override {
    from_ = static_cast<const float*>(inputs[0]);
    filter_ = static_cast<const float*>(inputs[1]);
    bias_ = inputs.size() == 3 ? static_cast<const float*>(inputs[2]) : nullptr;
    to_ = static_cast<float*>(outputs[0]);
    if (!keeps_filter_) return;
    const bool is_forward = panels_.direction == Direction::forward;
    kept_ = KeptFilter::of(filter_, message(is_forward ? "forward " : "backward ", panels_.filter), panels_.bytes());
  }

 protected:
  PanelKernel(const KernelSpec& spec, const Panels& panels, ActivationRange range)
      : panels_(panels), width_(spec.width), range_(range), keeps_filter_(spec.constant_filter) {}

  const Panels panels_;
  const int width_;
  const ActivationRange range_;
  const bool keeps_filter_;
  std::shared_ptr<KeptFilter> kept_;  // once bound, if it keeps the filter
  const float *from_ = nullptr, *filter_ = nullptr, *bias_ = nullptr;
  float* to_ = nullptr;
};

/// For 1x1 filters with stride 1 and no padding, or their backward data: a product of a tall matrix, whose rows are the
/// pixels, with the filter.
std::unique_ptr<Kernel> pointwise(const KernelSpec& spec, const Panels& panels, ActivationRange range);
/// The gradient of such a filter.
std::unique_ptr<Kernel> pointwise_gradient(const KernelSpec& spec);

}  // namespace braid::cpu::indirect
