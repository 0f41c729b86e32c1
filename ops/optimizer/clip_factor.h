#pragma once
// Clipping of gradients by their global norm (Pascanu et al., 2013), as torch.nn.utils.clip_grad_norm_ does it. The
// factor is a value of the step: optimizers multiply by it, and the host never waits for the norm.

#include "core/graph/op.h"

namespace braid {

struct ClipOptions {
  double max_norm = 1;  ///< above 0
  bool scaled = false;  ///< the gradients belong to a scaled loss (ops/optimizer/loss_scale.h)
  static constexpr std::string_view kNames[] = {"max_norm", "scaled"};
  friend bool operator==(const ClipOptions&, const ClipOptions&) = default;
};

namespace ops {

/// If scaled, the factor of the scaled loss's gradients (f64 scalar); then one or more gradients, each of any floating
/// type → the factor to multiply them by (f64 scalar), with which their norm is at most max_norm, or 0 if the norm is
/// not finite; then optimizers skip the update; and the norm before clipping, without the scale (f64 scalar).
class ClipFactor final : public OpWith<ClipFactor, ClipOptions> {
 public:
  /// Throws Error if an option is out of range.
  explicit ClipFactor(const ClipOptions& options);
  std::string_view name() const override { return "clip_factor"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  /// Inputs before the gradients.
  std::size_t scalars() const { return attributes_.scaled ? 1 : 0; }
};

}  // namespace ops
}  // namespace braid
