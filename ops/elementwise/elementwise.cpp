#include "ops/elementwise/elementwise.h"

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"

namespace braid::ops {

namespace {

void infer_unary(std::string_view op, std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) {
  check_inputs(op, inputs, 1);
  check_floating(op, "an input", inputs[0]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

}  // namespace

template <Activation kActivation>
void Activate<kActivation>::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_unary(name(), inputs, outputs);
}

template <Activation kActivation>
void Activate<kActivation>::gradient(GradientContext& context) const {
  context.set_input_gradient(0, before_activation(context, kActivation, context.output_gradient(0), context.output(0)));
}

template <Activation kActivation>
void ActivateBackward<kActivation>::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_value(name(), "an output", inputs[1], inputs[0]);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

template <Activation kActivation>
void ActivateBackward<kActivation>::gradient(GradientContext& context) const {
  context.set_input_gradient(0, before_activation(context, kActivation, context.output_gradient(0), context.input(1)));
}

template class Activate<Activation::relu>;
template class Activate<Activation::relu6>;
template class ActivateBackward<Activation::relu>;
template class ActivateBackward<Activation::relu6>;

ValueId before_activation(GradientContext& context, Activation activation, ValueId dy, ValueId y) {
  switch (activation) {
    case Activation::relu: return context.record(std::make_shared<ReluBackward>(), {dy, y});
    case Activation::relu6: return context.record(std::make_shared<Relu6Backward>(), {dy, y});
    default: return dy;
  }
}

void Scale::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_unary(name(), inputs, outputs);
}

void Scale::gradient(GradientContext& context) const {
  set_gradient<Scale>(context, 0, {context.output_gradient(0)}, attributes());
}

void ScaleBy::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_value(name(), "a factor", inputs[1], {computed_in(inputs[0].dtype), {}});
  infer_unary(name(), inputs.first(1), outputs);
}

void ScaleBy::gradient(GradientContext& context) const {
  BRAID_CHECK(!context.needs(1), Error, "[scale_by] has no gradient for its factor: use a state, which is not trained");
  set_gradient<ScaleBy>(context, 0, {context.output_gradient(0), context.input(1)});
}

void Sum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(!inputs.empty(), ShapeError, "[sum] expected at least one input");
  for (const ValueDesc& input : inputs) {
    check_floating(name(), "an input", input);
    check_value(name(), "an input", input, inputs[0]);
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

void Sum::gradient(GradientContext& context) const {
  for (int i = 0; i < context.input_count(); ++i) context.set_input_gradient(i, context.output_gradient(0));
}

void Cast::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const DType dtype = attributes_.dtype;
  BRAID_CHECK(is_floating(dtype), ShapeError, "[cast] expected a floating type to cast to, got ", dtype);
  outputs.push_back({.dtype = dtype, .shape = inputs[0].shape});
}

void Cast::gradient(GradientContext& context) const {
  set_gradient<Cast>(context, 0, {context.output_gradient(0)}, context.desc(context.input(0)).dtype);
}

ValueId cast(GradientContext& context, ValueId value, DType dtype) {
  const bool fits = value == kNoValue || context.desc(value).dtype == dtype;
  return fits ? value : context.record(std::make_shared<Cast>(dtype), {value});
}

void Fill::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 0);
  check_floating(name(), "an output", attributes_.output);
  outputs.push_back({.dtype = attributes_.output.dtype, .shape = attributes_.output.shape});
}

}  // namespace braid::ops
