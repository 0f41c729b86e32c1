#include "ops/linear.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

Work matmul_work(std::int64_t m, std::int64_t n, std::int64_t k, const Op& op, std::span<const ValueDesc> inputs,
                 std::span<const ValueDesc> outputs) {
  Work work = op.Op::work(inputs, outputs);
  work.products = 1;
  work.splits = true;
  work.rows = static_cast<double>(m);
  work.columns = static_cast<double>(n);
  work.depth = static_cast<double>(k);
  work.flops = 2 * work.rows * work.columns * work.depth;
  return work;
}

}  // namespace

void Linear::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  if (inputs.size() != 3) check_inputs(name(), inputs, 2);
  check_rank(name(), "an input", inputs[0], 2, "[N,C]");
  check_rank(name(), "a weight", inputs[1], 2, "[K,C]");
  check_floating(name(), "an input", inputs[0]);
  check_dtype(name(), "a weight", inputs[1], inputs[0].dtype);
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  BRAID_CHECK(x[1] == w[1], ShapeError, "[linear] expected ", w[1], " input features (weight is ", w, "), got ", x[1],
              " (input is ", x, ")");
  if (inputs.size() == 3) check_value(name(), "a bias", inputs[2], {inputs[0].dtype, {w[0]}});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {x[0], w[0]}});
}

Work Linear::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return matmul_work(inputs[0].shape[0], inputs[1].shape[0], inputs[1].shape[1], *this, inputs, outputs);
}

void Linear::gradient(GradientContext& context) const {
  const ValueId x = context.input(0), w = context.input(1), dy = context.output_gradient(0);
  if (context.needs(0)) context.set_input_gradient(0, context.emit(std::make_shared<LinearBackwardData>(), {dy, w}));
  if (context.needs(1)) context.set_input_gradient(1, context.emit(std::make_shared<LinearBackwardFilter>(), {x, dy}));
  if (context.input_count() == 3 && context.needs(2)) {
    context.set_input_gradient(2, context.emit(std::make_shared<ChannelSum>(), {dy}));
  }
}

void LinearBackwardData::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_rank(name(), "an output gradient", inputs[0], 2, "[N,K]");
  check_rank(name(), "a weight", inputs[1], 2, "[K,C]");
  check_dtype(name(), "a weight", inputs[1], inputs[0].dtype);
  BRAID_CHECK(inputs[0].shape[1] == inputs[1].shape[0], ShapeError, "[", name(), "] expected ", inputs[1].shape[0],
              " output features (weight is ", inputs[1].shape, "), got ", inputs[0].shape);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {inputs[0].shape[0], inputs[1].shape[1]}});
}

Work LinearBackwardData::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return matmul_work(inputs[0].shape[0], inputs[1].shape[1], inputs[1].shape[0], *this, inputs, outputs);
}

void LinearBackwardFilter::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_rank(name(), "an input", inputs[0], 2, "[N,C]");
  check_rank(name(), "an output gradient", inputs[1], 2, "[N,K]");
  check_dtype(name(), "an output gradient", inputs[1], inputs[0].dtype);
  BRAID_CHECK(inputs[0].shape[0] == inputs[1].shape[0], ShapeError, "[", name(), "] expected equal batch sizes, got ",
              inputs[0].shape, " and ", inputs[1].shape);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {inputs[1].shape[1], inputs[0].shape[1]}});
}

Work LinearBackwardFilter::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return matmul_work(inputs[1].shape[1], inputs[0].shape[1], inputs[0].shape[0], *this, inputs, outputs);
}

void ChannelSum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  check_floating(name(), "an input", inputs[0]);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x.rank() >= 1, ShapeError, "[channel_sum] expected an input of shape [...,C], got a scalar");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {x[x.rank() - 1]}});
}

}  // namespace braid::ops
