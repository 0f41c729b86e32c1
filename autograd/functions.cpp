#include "autograd/functions.h"

#include "ops/concat.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/reshape.h"
#include "ops/weighted_sum.h"

namespace braid {

Tensor apply_op(OpPtr op, std::span<const Tensor> inputs) {
  BRAID_CHECK(!inputs.empty(), ShapeError, "[", op->name(), "] expected at least one input");
  Tape& tape = inputs[0].tape();
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) {
    BRAID_CHECK(&input.tape() == &tape, Error, "[", op->name(), "] its inputs belong to different sessions");
    ids.push_back(input.id());
  }
  return {tape, tape.record(std::move(op), ids)};
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options) {
  return apply_op(std::make_shared<ops::Conv2d>(options), {x, w});
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dOptions& options) {
  return apply_op(std::make_shared<ops::Conv2d>(options), {x, w, bias});
}

Tensor linear(const Tensor& x, const Tensor& w) { return apply_op(std::make_shared<ops::Linear>(), {x, w}); }

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return apply_op(std::make_shared<ops::Linear>(), {x, w, bias});
}

Tensor batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                  bool training, const Tensor& residual) {
  BRAID_CHECK(options.add == residual.defined(), ShapeError,
              "[batch_norm] a residual must be given exactly if options.add is set");
  OpPtr op = training ? OpPtr(std::make_shared<ops::BatchNorm>(options))
                      : OpPtr(std::make_shared<ops::BatchNormInference>(options));
  const Tensor scale(parameters.scale), shift(parameters.shift);
  const Tensor mean(parameters.running_mean), variance(parameters.running_variance);
  if (residual.defined()) return apply_op(std::move(op), {x, scale, shift, mean, variance, residual});
  return apply_op(std::move(op), {x, scale, shift, mean, variance});
}

Tensor relu(const Tensor& x) { return apply_op(std::make_shared<ops::Relu>(), {x}); }

Tensor relu6(const Tensor& x) { return apply_op(std::make_shared<ops::Relu6>(), {x}); }

Tensor max_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::MaxPool2d>(options), {x});
}

Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) {
  return apply_op(std::make_shared<ops::AvgPool2d>(options), {x});
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output) {
  return apply_op(std::make_shared<ops::AdaptiveAvgPool2d>(output), {x});
}

Tensor global_avg_pool(const Tensor& x) { return apply_op(std::make_shared<ops::GlobalAvgPool>(), {x}); }

Tensor add(const Tensor& a, const Tensor& b) { return apply_op(std::make_shared<ops::Sum>(), {a, b}); }

Tensor scale(const Tensor& x, double factor) { return apply_op(std::make_shared<ops::Scale>(factor), {x}); }

Tensor scale(const Tensor& x, const Tensor& factor) { return apply_op(std::make_shared<ops::ScaleBy>(), {x, factor}); }

Tensor sum(std::span<const Tensor> inputs) { return apply_op(std::make_shared<ops::Sum>(), inputs); }

Tensor weighted_sum(const Tensor& weights, std::span<const Tensor> inputs) {
  std::vector<Tensor> all{weights};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return apply_op(std::make_shared<ops::WeightedSum>(), all);
}

Tensor concat(std::span<const Tensor> inputs) { return apply_op(std::make_shared<ops::Concat>(), inputs); }

Tensor dropout(const Tensor& x, double p, std::uint32_t layer) {
  Tape& tape = x.tape();
  return apply_op(std::make_shared<ops::Dropout>(p, tape.context().random().seed, layer),
                  {x, Tensor(tape, tape.step_number())});
}

Tensor reshape(const Tensor& x, const Shape& shape) { return apply_op(std::make_shared<ops::Reshape>(shape), {x}); }

Tensor flatten(const Tensor& x) {
  const Shape& shape = x.shape();
  BRAID_CHECK(shape.rank() >= 1, ShapeError, "[flatten] expected an input of shape [N,...], got a scalar");
  std::int64_t rest = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) rest *= shape[axis];
  return reshape(x, {shape[0], rest});
}

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : Tensor(x.tape(), x.tape().record_cast(x.id(), dtype));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing) {
  return apply_op(std::make_shared<ops::CrossEntropy>(label_smoothing),
                  {cast(logits, computed_in(logits.dtype())), labels});
}

Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  return apply_op(std::make_shared<ops::Accuracy>(k), {cast(logits, computed_in(logits.dtype())), labels});
}

}  // namespace braid
