#pragma once
// Dynamic loss scaling (Micikevicius et al., 2018, section 3.2), as torch.amp.GradScaler does it. Small gradients would
// vanish in f16, so the loss is multiplied by a scale before the backward pass, and the update divides by it. A scale
// that is too large causes a gradient that is not finite: then the step is skipped and the scale reduced. All of this
// is in the step graph: the host need not know whether a step was skipped.

#include "core/graph/op.h"

namespace braid {

struct LossScaleOptions {
  double growth = 2;           ///< at least 1: the scale is multiplied by it after growth_interval good steps
  double backoff = 0.5;        ///< in (0, 1): the scale is multiplied by it if a gradient is not finite
  int growth_interval = 2000;  ///< at least 1
  static constexpr std::string_view kNames[] = {"growth", "backoff", "growth_interval"};
  friend bool operator==(const LossScaleOptions&, const LossScaleOptions&) = default;
};

namespace ops {

/// State: scale (f32 scalar), good steps since the scale last changed (i32 scalar), updates made so far (i32 scalar);
/// then one or more gradients of the loss times the scale, each of any floating type
/// → the next version of all three, and the factor to multiply the gradients by (f64 scalar): 1/scale, or 0 if an
/// element of a gradient is not finite; then optimizers skip the update.
class LossScaleUpdate final : public OpWith<LossScaleUpdate, LossScaleOptions> {
 public:
  static constexpr std::size_t kStates = 3;  ///< before the gradients
  /// Throws Error if an option is out of range.
  explicit LossScaleUpdate(const LossScaleOptions& options);
  std::string_view name() const override { return "loss_scale_update"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

}  // namespace ops
}  // namespace braid
