#include "ops/matmul/linear.h"

#include <algorithm>

#include "ops/common/check.h"
#include "ops/common/set_gradient.h"
#include "ops/elementwise/expression.h"
#include "ops/layout/reshape.h"

namespace braid::ops {

namespace {

Work matmul_work(std::int64_t m, std::int64_t n, std::int64_t k, const Op& op, std::span<const ValueDesc> inputs,
                 std::span<const ValueDesc> outputs, std::int64_t batches = 1) {
  Work work = op.Op::work(inputs, outputs);
  work.products = static_cast<double>(batches);
  work.splits = true;
  work.rows = static_cast<double>(m);
  work.columns = static_cast<double>(n);
  work.depth = static_cast<double>(k);
  work.flops = 2 * work.products * work.rows * work.columns * work.depth;
  return work;
}

/// The axes before the matrices.
std::span<const std::int64_t> batch_axes(const Shape& shape) {
  return shape.extents().first(shape.extents().size() - 2);
}

}  // namespace

MatmulExtents::MatmulExtents(const MatmulOptions& options, const Shape& a, const Shape& b)
    : batches(1),
      m(a[options.transpose_a ? -1 : -2]),
      n(b[options.transpose_b ? -2 : -1]),
      k(a[options.transpose_a ? -2 : -1]),
      a_step(a.rank() > 2 ? m * k : 0),
      b_step(b.rank() > 2 ? k * n : 0) {
  for (const std::int64_t extent : batch_axes(a.rank() > 2 ? a : b)) batches *= extent;
}

void Matmul::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  BRAID_CHECK(a.rank() >= 2 && b.rank() >= 2, ShapeError,
              "[matmul] expected inputs of shape [...,M,K] and [...,K,N], got ", a, " and ", b);
  check_floating(name(), "a first input", inputs[0]);
  check_dtype(name(), "a second input", inputs[1], inputs[0].dtype);
  const MatmulExtents e(attributes_, a, b);
  const std::int64_t rows = b[attributes_.transpose_b ? -1 : -2];
  BRAID_CHECK(e.k == rows, ShapeError, "[matmul] expected ", e.k, " rows of the second matrix, got ", rows,
              " (inputs are ", a, " and ", b, ": ", *this, ")");
  BRAID_CHECK(a.rank() == 2 || b.rank() == 2 || std::ranges::equal(batch_axes(a), batch_axes(b)), ShapeError,
              "[matmul] expected equal axes before the matrices, or none in one input, got ", a, " and ", b);
  const auto batch = batch_axes(a.rank() > 2 ? a : b);
  std::vector<std::int64_t> extents(batch.begin(), batch.end());
  extents.insert(extents.end(), {e.m, e.n});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = Shape(extents)});
}

Work Matmul::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const MatmulExtents e(attributes_, inputs[0].shape, inputs[1].shape);
  return matmul_work(e.m, e.n, e.k, *this, inputs, outputs, e.batches);
}

void Matmul::gradient(GradientContext& context) const {
  const ValueId a = context.input(0), b = context.input(1), dy = context.output_gradient(0);
  const auto [ta, tb] = static_cast<const MatmulOptions&>(attributes());
  const auto set = [&](int i, ValueId first, ValueId second, MatmulOptions options) {
    if (!context.needs(i)) return;
    ValueId gradient = context.record(std::make_shared<Matmul>(options), {first, second});
    const Shape shape = context.desc(context.input(i)).shape, batched = context.desc(gradient).shape;
    if (batched != shape) {  // a single matrix, used in every product
      const Shape rows{shape.size() == 0 ? 0 : batched.size() / shape.size(), shape.size()};
      gradient = context.record(std::make_shared<Reshape>(rows), {gradient});
      gradient = context.record(std::make_shared<ChannelSum>(), {gradient});
      gradient = context.record(std::make_shared<Reshape>(shape), {gradient});
    }
    context.set_input_gradient(i, gradient);
  };
  ta ? set(0, b, dy, {tb, true}) : set(0, dy, b, {false, !tb});
  tb ? set(1, dy, a, {true, ta}) : set(1, a, dy, {!ta, false});
}

void Linear::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  if (inputs.size() != 3) check_inputs(name(), inputs, 2);
  check_rank(name(), "an input", inputs[0], 2, "[N,C]");
  check_rank(name(), "a weight", inputs[1], 2, "[K,C]");
  check_floating(name(), "an input", inputs[0]);
  check_dtype(name(), "a weight", inputs[1], inputs[0].dtype);
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
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
  set_gradient<LinearBackwardData>(context, 0, {dy, w});
  set_gradient<LinearBackwardFilter>(context, 1, {x, dy});
  if (context.input_count() == 3) set_gradient<ChannelSum>(context, 2, {dy});
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

// Each of the three products is the gradient of the two others.

void LinearBackwardData::gradient(GradientContext& context) const {
  const ValueId dy = context.input(0), w = context.input(1), ddx = context.output_gradient(0);
  set_gradient<Linear>(context, 0, {ddx, w});
  set_gradient<LinearBackwardFilter>(context, 1, {ddx, dy});
}

void LinearBackwardFilter::gradient(GradientContext& context) const {
  const ValueId x = context.input(0), dy = context.input(1), ddw = context.output_gradient(0);
  set_gradient<LinearBackwardData>(context, 0, {dy, ddw});
  set_gradient<Linear>(context, 1, {x, ddw});
}

void ChannelSum::gradient(GradientContext& context) const {
  const Shape x = context.desc(context.input(0)).shape;
  set_gradient<Elementwise>(context, 0, {context.output_gradient(0)}, Expression{}, x);
}

void ChannelSum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  check_floating(name(), "an input", inputs[0]);
  const Shape& x = inputs[0].shape;
  BRAID_CHECK(x.rank() >= 1, ShapeError, "[channel_sum] expected an input of shape [...,C], got a scalar");
  outputs.push_back({.dtype = inputs[0].dtype, .shape = {x[-1]}});
}

OpAxes Matmul::axes(const NodeValues& node) const {
  const auto of_matrices = [](const Shape& shape, bool transposed, const char* axes, const char* transposed_axes) {
    return std::string(shape.rank() > 2 ? "*" : "") + (transposed ? transposed_axes : axes);
  };
  return {of_matrices(node.inputs[0].shape, attributes_.transpose_a, "ij", "ji") + ',' +
          of_matrices(node.inputs[1].shape, attributes_.transpose_b, "jl", "lj") + "->*il"};
}

OpAxes Linear::axes(const NodeValues& node) const {
  return {node.inputs.size() == 3 ? "n_,k_,k->nk" : "nc,kc->nk"};  // every summand would have the bias
}

}  // namespace braid::ops
