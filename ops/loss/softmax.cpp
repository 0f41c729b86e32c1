#include "ops/loss/softmax.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"

namespace braid::ops {

namespace {

std::string_view shown_name(const SoftmaxAttributes& attributes) {
  return attributes.logarithm ? "log_softmax" : "softmax";
}

void infer_softmax(std::string_view op, const SoftmaxAttributes& attributes, const ValueDesc& x,
                   std::vector<OutputDesc>& outputs) {
  check_floating(op, "an input", x);
  BRAID_CHECK(attributes.axis >= 0 && attributes.axis < x.shape.rank(), ShapeError, "[", op,
              "] expected an axis below ", x.shape.rank(), ", got ", attributes.axis, " (input is ", x.shape, ")");
  outputs.push_back({.dtype = x.dtype, .shape = x.shape, .reuses = 0});
}

}  // namespace

void Softmax::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(shown_name(attributes_), inputs, 1);
  infer_softmax(shown_name(attributes_), attributes_, inputs[0], outputs);
}

Work Softmax::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return Op::work(inputs, outputs).with_flops(20 * static_cast<double>(outputs[0].shape.size()));
}

/// Each row along the axis is computed as a whole.
OpAxes Softmax::axes(const NodeValues& node) const {
  return OpAxes::all_but(static_cast<int>(attributes_.axis), node.inputs[0].shape.rank());
}

void Softmax::gradient(GradientContext& context) const {
  set_gradient<SoftmaxBackward>(context, 0, {context.output_gradient(0), context.output(0)}, attributes());
}

/// Differentiates dx = y·(dy − s) with s = Σ dy·y for softmax, and dx = dy − eʸ·Σ dy for its logarithm.
void SoftmaxBackward::gradient(GradientContext& context) const {
  const ValueId dy = context.input(0), y = context.input(1), u = context.output_gradient(0);
  const auto apply = [&](Function f, ValueId a, ValueId b) { return context.record(elementwise(f), {a, b}); };
  const auto total = [&](ValueId value) {
    return context.record(std::make_shared<Reduce>(ReduceKind::sum, Shape{attributes_.axis}, true), {value});
  };
  using enum Function;
  if (attributes_.logarithm) {
    const ValueId share = context.record(elementwise(Function::exp), {y});
    if (context.needs(0)) {
      context.set_input_gradient(0, apply(sub, u, total(apply(mul, u, share))));
    }
    if (context.needs(1)) {
      const ValueId product = apply(mul, apply(mul, u, share), total(dy));
      context.set_input_gradient(1, context.record(elementwise(neg), {product}));
    }
    return;
  }
  set_gradient<SoftmaxBackward>(context, 0, {u, y}, attributes());
  if (context.needs(1)) {
    const ValueId own = apply(mul, u, apply(sub, dy, total(apply(mul, dy, y))));
    context.set_input_gradient(1, apply(sub, own, apply(mul, dy, total(apply(mul, u, y)))));
  }
}

void SoftmaxBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_value(name(), "an output", inputs[1], inputs[0]);
  infer_softmax(name(), attributes_, inputs[0], outputs);
}

Work SoftmaxBackward::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const double flops = attributes_.logarithm ? 16 : 5;
  return Op::work(inputs, outputs).with_flops(flops * static_cast<double>(outputs[0].shape.size()));
}

OpAxes SoftmaxBackward::axes(const NodeValues& node) const {
  return OpAxes::all_but(static_cast<int>(attributes_.axis), node.inputs[0].shape.rank());
}

}  // namespace braid::ops
