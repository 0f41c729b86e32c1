#pragma once
// What batch and group normalisation share for gradients of gradients: the derivative of their backward pass.

#include "core/graph/op.h"

namespace braid::ops {

/// A backward pass dx = r·P(γ·dy) with P(v) = v − mean(v) − x̂·mean(v·x̂), dγ = Σ dy·x̂ and dβ = Σ dy, where x̂ = (x −
/// μ)·r. Shapes broadcast to that of x.
struct NormalizationBackward {
  ValueId dy, x, scale, mean, inverse_deviation;  ///< γ, μ, r
  Shape group_axes;                               ///< the axes of a group of elements with one mean
  Shape scale_axes;                               ///< the axes that γ lacks
  ValueId of_dx, of_scale, of_shift;              ///< gradients of dx, dγ and dβ; kNoValue for none
};

/// Its gradients; those of μ and r are part of that of x. kNoValue for zero.
struct NormalizationSecond {
  ValueId dy = kNoValue, x = kNoValue, scale = kNoValue;
};

NormalizationSecond differentiate(GradientContext& context, const NormalizationBackward& backward);

}  // namespace braid::ops
