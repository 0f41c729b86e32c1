#include "ops/pool/interpolate.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"

namespace braid::ops {

namespace {

Shape resampled(std::string_view op, const InterpolateAttributes& options, const Shape& x) {
  const auto& [output, step_h, step_w, mode, align_corners] = options;
  BRAID_CHECK(output.h >= 1 && output.w >= 1 && x[1] >= 1 && x[2] >= 1, ShapeError, "[", op,
              "] expected images of at least one pixel, got ", x, " to become ", output);
  check_option(op, "an output", output);
  const bool has_steps = align_corners ? step_h >= 0 && step_w >= 0 : step_h > 0 && step_w > 0;
  BRAID_CHECK(has_steps, ShapeError, "[", op, "] expected steps above 0, got ", step_h, " and ", step_w);
  BRAID_CHECK(mode != Interpolation::bicubic, ShapeError, "[", op, "] bicubic interpolation is no single op");
  return {x[0], output.h, output.w, x[3]};
}

/// Every pixel of the output is a sum of four products of three factors.
Work resampling_work(const Op& op, Interpolation mode, const ValueDesc& y, std::span<const ValueDesc> inputs,
                     std::span<const ValueDesc> outputs) {
  Work work = op.Op::work(inputs, outputs);
  if (mode == Interpolation::bilinear) work.flops = 8 * static_cast<double>(y.shape.size());
  return work;
}

}  // namespace

void Interpolate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  check_rank(name(), "an input", inputs[0], 4, "[N,H,W,C]");
  check_floating(name(), "an input", inputs[0]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = resampled(name(), attributes_, inputs[0].shape)});
}

Work Interpolate::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return resampling_work(*this, attributes_.mode, outputs[0], inputs, outputs);
}

void Interpolate::gradient(GradientContext& context) const {
  const Shape x = context.desc(context.input(0)).shape;
  set_gradient<InterpolateBackward>(context, 0, {context.output_gradient(0)}, attributes(), x);
}

void InterpolateBackward::gradient(GradientContext& context) const {
  set_gradient<Interpolate>(context, 0, {context.output_gradient(0)}, attributes_.options);
}

void InterpolateBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const auto& [options, x] = attributes();
  check_shape(name(), "an output gradient", inputs[0], resampled(name(), options, x));
  outputs.push_back({.dtype = inputs[0].dtype, .shape = x});
}

Work InterpolateBackward::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return resampling_work(*this, attributes_.options.mode, inputs[0], inputs, outputs);
}

}  // namespace braid::ops
