#include "autograd/functions/loss.h"

#include "autograd/functions/apply.h"
#include "autograd/functions/common.h"
#include "autograd/functions/elementwise.h"
#include "autograd/functions/layout.h"
#include "ops/elementwise/expression.h"
#include "ops/loss/cross_entropy.h"

namespace braid {

namespace {

/// An op of logits [N,K] and labels [N] (or targets [N,K]), applied to those of images' pixels, [N,...,K] and [N,...].
Tensor classify(OpPtr op, const Tensor& logits, const Tensor& labels) {
  const Tensor scores = cast(logits, computed_in(logits.dtype()));
  const Shape& shape = logits.shape();
  if (shape.rank() <= 2) return apply_op(std::move(op), {scores, labels});
  const std::int64_t classes = shape[-1], rows = shape.size_between(0, shape.rank() - 1);
  const bool are_targets = labels.shape() == shape;
  BRAID_CHECK(are_targets || labels.shape() == label_shape(shape), ShapeError, "[", op->name(),
              "] expected labels of shape ", label_shape(shape), " (logits are ", shape, "), got ", labels.shape());
  return apply_op(std::move(op), {reshape(scores, {rows, classes}),
                                  reshape(labels, are_targets ? Shape{rows, classes} : Shape{rows})});
}

Tensor reduced(const Tensor& losses, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::none: return losses;
    case LossReduction::sum: return sum(losses);
    case LossReduction::batch_mean:
      return sum(losses) / static_cast<double>(losses.shape().rank() > 0 ? losses.shape()[0] : 1);
    default: return mean(losses);
  }
}

/// The loss of an expression of x, the target and possibly a weight.
Tensor elementwise_loss(std::string_view function, const OpPtr& op, const Tensor& x, const Tensor& target,
                        LossReduction reduction, const Tensor& weight = {}) {
  BRAID_CHECK(x.shape() == target.shape(), ShapeError, "[", function, "] expected a target of shape ", x.shape(),
              ", as the input's, got ", target.shape());
  return called(function, [&] {
    const DType dtype = computed_in(x.dtype());
    std::vector<Tensor> inputs = {cast(x, dtype), cast(target, dtype)};
    if (weight.defined()) inputs.push_back(cast(weight, dtype));
    return reduced(apply_op(op, inputs), reduction);
  });
}

/// Element by element: −weight·target·log softmax, in any form that the fused op does not have.
Tensor general_cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const auto& [smoothing, weight, ignore_index, reduction] = options;
  BRAID_CHECK(logits.shape().rank() >= 1 && smoothing >= 0 && smoothing < 1, ShapeError,
              "[cross_entropy] expected logits of shape [N,...,K] and label smoothing in [0, 1), got ", logits.shape(),
              " and ", smoothing);
  const Tensor scores = cast(logits, computed_in(logits.dtype()));
  const std::int64_t classes = logits.shape()[-1];
  const bool are_targets = is_floating(labels.dtype());
  const Shape expected = are_targets ? logits.shape() : label_shape(logits.shape());
  BRAID_CHECK(labels.shape() == expected, ShapeError, "[cross_entropy] expected ",
              are_targets ? "probabilities" : "labels", " of shape ", expected, " (logits are ", logits.shape(),
              "), got ", labels.shape());
  const Tensor given =
      are_targets ? cast(labels, scores.dtype()) : one_hot_or_nothing(labels, classes, scores.dtype(), ignore_index);
  std::vector<Tensor> inputs{log_softmax(scores), given};
  if (weight.defined()) {
    BRAID_CHECK(weight.shape() == Shape{classes}, ShapeError, "[cross_entropy] expected a weight for each of ", classes,
                " classes, got weights of shape ", weight.shape());
    inputs.push_back(cast(weight, scores.dtype()));
  }
  const bool has_valid = !are_targets && smoothing > 0;
  if (has_valid) inputs.push_back(sum(given, -1, true));
  const OpPtr op = expression([&](ops::ExpressionBuilder& e) {
    ops::Term target = e.input(1);
    if (smoothing > 0) {
      const ops::Term everywhere = e.constant(smoothing / static_cast<double>(classes));
      target = (1 - smoothing) * target + (has_valid ? everywhere * e.input(inputs.size() - 1) : everywhere);
    }
    if (weight.defined()) target = target * e.input(2);
    return -e.apply(Function::gate, e.input(0), target);  // 0 where nothing is expected, also of an infinite logarithm
  });
  const Tensor losses = sum(apply_op(op, inputs), -1);
  if (are_targets || reduction != LossReduction::mean) return reduced(losses, reduction);
  const Tensor total = sum(losses);
  return total / sum(weight.defined() ? given * inputs[2] : given);
}

}  // namespace

Shape label_shape(const Shape& logits) {
  BRAID_CHECK(logits.rank() >= 1, ShapeError, "[label_shape] expected logits of shape [N,...,K], got ", logits);
  return Shape(logits.extents().first(static_cast<std::size_t>(logits.rank() - 1)));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing) {
  if (labels.tape().requires_gradient(labels.id())) {
    return cross_entropy(logits, labels, CrossEntropyOptions{.label_smoothing = label_smoothing});
  }
  return classify(std::make_shared<ops::CrossEntropy>(label_smoothing), logits, labels);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  return called("cross_entropy", [&] { return general_cross_entropy(logits, labels, options); });
}

Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  return classify(std::make_shared<ops::Accuracy>(k), logits, labels);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  static const OpPtr op = expression([](ops::ExpressionBuilder& e) {
    const ops::Term difference = e.input(0) - e.input(1);
    return difference * difference;
  });
  return elementwise_loss("mse_loss", op, x, target, reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  static const OpPtr op =
      expression([](ops::ExpressionBuilder& e) { return e.apply(Function::abs, e.input(0) - e.input(1)); });
  return elementwise_loss("l1_loss", op, x, target, reduction);
}

namespace {

/// With m the smaller of |x − target| and the bound: factor·m·(|x − target| − m/2)
OpPtr huber(double bound, double factor) {
  return expression([&](ops::ExpressionBuilder& e) {
    const ops::Term distance = e.apply(Function::abs, e.input(0) - e.input(1));
    const ops::Term bounded = e.apply(Function::minimum, distance, e.constant(bound));
    return factor * bounded * (distance - 0.5 * bounded);
  });
}

}  // namespace

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, LossReduction reduction) {
  BRAID_CHECK(delta > 0, Error, "[huber_loss] expected a delta above 0, got ", delta);
  return elementwise_loss("huber_loss", huber(delta, 1), x, target, reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, LossReduction reduction) {
  BRAID_CHECK(beta >= 0, Error, "[smooth_l1_loss] expected a beta of at least 0, got ", beta);
  if (beta == 0) return l1_loss(x, target, reduction);
  return elementwise_loss("smooth_l1_loss", huber(beta, 1 / beta), x, target, reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, LossReduction reduction, bool log_target) {
  const OpPtr op = expression([&](ops::ExpressionBuilder& e) {
    const ops::Term probability = log_target ? e.apply(Function::exp, e.input(1)) : e.input(1);
    const ops::Term logarithm = log_target ? e.input(1) : e.apply(Function::log, e.input(1));
    return e.apply(Function::gate, logarithm - e.input(0), probability);  // 0·log 0 is 0
  });
  return elementwise_loss("kl_div", op, x, target, reduction);
}

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha, double gamma,
                          LossReduction reduction) {
  const OpPtr op = expression([&](ops::ExpressionBuilder& e) {
    const ops::Term x = e.input(0), t = e.input(1), p = e.apply(Function::sigmoid, x);
    const ops::Term missed = p + t - 2 * (p * t);  // 1 less the probability of the truth
    const ops::Term loss = e.apply(Function::bce_with_logits, x, t) * e.apply(Function::pow, missed, e.constant(gamma));
    return alpha < 0 ? loss : loss * (e.constant(1 - alpha) + (2 * alpha - 1) * t);
  });
  return elementwise_loss("sigmoid_focal_loss", op, logits, target, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target, LossReduction reduction,
                                        const Tensor& positive_weight) {
  constexpr std::string_view kName = "binary_cross_entropy_with_logits";
  if (!positive_weight.defined()) {
    return elementwise_loss(kName, ops::elementwise(Function::bce_with_logits), logits, target, reduction);
  }
  static const OpPtr weighted = expression([](ops::ExpressionBuilder& e) {
    const ops::Term x = e.input(0), z = e.input(1), p = e.input(2);
    return (1 - z) * x + (1 - z + p * z) * e.apply(Function::softplus, -x);
  });
  return elementwise_loss(kName, weighted, logits, target, reduction, positive_weight);
}

}  // namespace braid
