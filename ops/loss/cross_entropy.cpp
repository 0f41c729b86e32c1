#include "ops/loss/cross_entropy.h"

#include "ops/common/check.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"
#include "ops/loss/softmax.h"

namespace braid::ops {

namespace {

void check_logits_and_labels(std::string_view op, const ValueDesc& logits, const ValueDesc& labels,
                             bool probabilities = false) {
  check_rank(op, "logits", logits, 2, "[N,K]");
  check_floating(op, "logits", logits);
  check_dtype(op, "logits", logits, computed_in(logits.dtype));
  if (probabilities && is_floating(labels.dtype)) {
    check_value(op, "targets", labels, logits);
  } else {
    check_value(op, "labels", labels, {DType::i32, {logits.shape[0]}});
  }
  BRAID_CHECK(logits.shape[1] > 0, ShapeError, "[", op, "] expected at least one class, got logits of shape ",
              logits.shape);
}

}  // namespace

CrossEntropy::CrossEntropy(double label_smoothing) : OpWith(label_smoothing) {
  BRAID_CHECK(label_smoothing >= 0 && label_smoothing < 1, ShapeError,
              "[cross_entropy] expected label smoothing in [0, 1), got ", label_smoothing);
}

void CrossEntropy::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_logits_and_labels(name(), inputs[0], inputs[1], true);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {}});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

/// The probabilities get a gradient when the gradient of the loss is differentiated.
void CrossEntropy::gradient(GradientContext& context) const {
  if (const ValueId dloss = context.output_gradient(0); dloss != kNoValue) {
    context.set_input_gradient(0, context.record(std::make_shared<CrossEntropyBackward>(attributes()),
                                                 {dloss, context.output(1), context.input(1)}));
  }
  if (const ValueId dp = context.output_gradient(1); dp != kNoValue) {
    context.set_input_gradient(0, context.record(std::make_shared<SoftmaxBackward>(1, false), {dp, context.output(1)}));
  }
}

/// dlogits is linear in dloss and, as targets add up to 1, in the probabilities.
void CrossEntropyBackward::gradient(GradientContext& context) const {
  const ValueId dloss = context.input(0), probabilities = context.input(1), labels = context.input(2);
  BRAID_CHECK(!is_floating(context.desc(labels).dtype), Error,
              "[cross_entropy_backward] has a gradient for labels only, not for probabilities as targets");
  const ValueId u = context.output_gradient(0);
  if (context.needs(0)) {
    const ValueDesc scalar = context.desc(dloss);
    const ValueId one = context.record(std::make_shared<Fill>(scalar, 1.0), {});
    const ValueId of_one =
        context.record(std::make_shared<CrossEntropyBackward>(attributes()), {one, probabilities, labels});
    const ValueId product = context.record(elementwise(Function::mul), {u, of_one});
    context.set_input_gradient(
        0, context.record(std::make_shared<Reduce>(ReduceKind::sum, Shape{0, 1}, false), {product}));
  }
  if (context.needs(1)) {
    const auto rows = static_cast<double>(context.desc(probabilities).shape[0]);
    const ValueId product = context.record(elementwise(Function::mul), {u, dloss});
    context.set_input_gradient(1, context.record(std::make_shared<Scale>(1 / rows), {product}));
  }
}

void CrossEntropyBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 3);
  check_shape(name(), "a loss gradient", inputs[0], {});
  check_logits_and_labels(name(), inputs[1], inputs[2], true);
  outputs.push_back({.dtype = inputs[1].dtype, .shape = inputs[1].shape, .reuses = 1});
}

Accuracy::Accuracy(std::int64_t k) : OpWith(k) {
  BRAID_CHECK(k >= 1, ShapeError, "[accuracy] expected k of at least 1, got ", k);
}

void Accuracy::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_logits_and_labels(name(), inputs[0], inputs[1]);
  outputs.push_back({.dtype = DType::f32, .shape = {}});
}

}  // namespace braid::ops
