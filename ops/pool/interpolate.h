#pragma once
// Resampling of images, with its gradient: each output pixel takes the nearest input pixel or weighs the four around
// it, as torch.nn.functional.interpolate does. Bicubic interpolation is composed of other ops (interpolate()).

#include "core/graph/op.h"
#include "ops/common/extent.h"
#include "ops/common/shape_attributes.h"

namespace braid {

/// nearest is PyTorch's, which rounds down; nearest_exact takes the pixel whose centre is nearest, as other libraries.
enum class Interpolation { nearest, bilinear, nearest_exact, bicubic };

constexpr std::string_view name_of(Interpolation mode) {
  constexpr std::string_view kNames[] = {"nearest", "bilinear", "nearest_exact", "bicubic"};
  return kNames[static_cast<int>(mode)];
}

/// One of `size` and `scale` is given.
struct InterpolateOptions {
  Extent2d size = 0;  ///< size of the output
  double scale = 0;   ///< output pixels per input pixel; the output's extents are rounded down
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< the centres of the corners' pixels stay where they are; else the corners do
};

namespace ops {

struct InterpolateAttributes {
  Extent2d output;
  double step_h, step_w;  ///< input pixels from one output pixel to the next
  Interpolation mode;
  bool align_corners = false;
  static constexpr std::string_view kNames[] = {"output", "step_h", "step_w", "mode", "align_corners"};
};

/// x [N,H,W,C] → y [N,P,Q,C] with P×Q given. Throws ShapeError if either has no pixel.
class Interpolate final : public OpWith<Interpolate, InterpolateAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "interpolate"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues&) const override { return {"n__c->n__c"}; }
};

/// dy [N,P,Q,C] → dx [N,H,W,C].
class InterpolateBackward final : public OpWith<InterpolateBackward, GradientOf<InterpolateAttributes>> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "interpolate_backward"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"n__c->n__c"}; }
};

}  // namespace ops
}  // namespace braid
