#include "autograd/functions/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "autograd/functions/apply.h"
#include "autograd/functions/common.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/random.h"
#include "ops/elementwise/reduce.h"
#include "ops/elementwise/weighted_sum.h"
#include "ops/index/top_k.h"
#include "ops/loss/softmax.h"

namespace braid {

namespace {

Tensor unary(Function function, const Tensor& x) { return apply_op(ops::elementwise(function), {x}); }
Tensor binary(Function function, const Tensor& a, const Tensor& b) {
  return apply_op(ops::elementwise(function), {a, b});
}
Tensor binary(Function function, const Tensor& a, double b) { return apply_op(ops::elementwise(function, b), {a}); }
Tensor binary(Function function, double a, const Tensor& b) {
  return apply_op(ops::elementwise(function, a, true), {b});
}

Tensor reduce(ops::ReduceKind kind, std::string_view function, const Tensor& x, const Axes& axes, bool keep_axes) {
  const auto op = std::make_shared<ops::Reduce>(kind, axes.of(function, x.shape()), keep_axes);
  return called(function, [&] { return apply_op(op, {x}); });
}

Tensor softmax_op(std::string_view function, const Tensor& x, int axis, bool logarithm) {
  const Shape axes = Axes(axis).of(function, x.shape());
  return apply_op(std::make_shared<ops::Softmax>(static_cast<int>(axes[0]), logarithm), {x});
}

/// f of terms, one for each operand: inputs and constants of one node.
template <class F>
Tensor compute(std::string_view function, std::initializer_list<Operand> operands, const F& f) {
  std::vector<Tensor> inputs;
  for (const Operand& operand : operands) {
    if (operand.is_tensor()) inputs.push_back(operand.tensor());
  }
  BRAID_CHECK(!inputs.empty(), Error, "[", function, "] expected at least one tensor, got numbers only");
  const OpPtr op = expression([&](ops::ExpressionBuilder& builder) {
    std::vector<ops::Term> terms;
    std::size_t input = 0;
    for (const Operand& operand : operands) {
      terms.push_back(operand.is_tensor() ? builder.input(input++) : builder.constant(operand.number()));
    }
    return f(builder, terms);
  });
  return called(function, [&] { return apply_op(op, inputs); });
}

using Builder = ops::ExpressionBuilder;
using Terms = std::vector<ops::Term>;

ops::Term clamped(Builder& e, ops::Term x, double least, double most) {
  return e.apply(Function::clamp_max, e.apply(Function::clamp_min, x, e.constant(least)), e.constant(most));
}

/// f of two operands, integers among them as the other one's floating type. Integers alone become f64, which holds
/// them exactly, and the result f32.
template <class F>
Tensor compare(std::string_view name, const Operand& a, const Operand& b, const F& f) {
  const auto floats = [](const Operand& x) { return x.is_tensor() && is_floating(x.tensor().dtype()); };
  const DType dtype = floats(a) ? a.tensor().dtype() : floats(b) ? b.tensor().dtype() : DType::f64;
  const auto floating = [&](const Operand& x) {
    return !x.is_tensor() || floats(x) ? x : Operand(cast(x.tensor(), dtype));
  };
  const Tensor y = compute(name, {floating(a), floating(b)}, f);
  return floats(a) || floats(b) ? y : cast(y, DType::f32);
}
Tensor compare(std::string_view name, Function function, const Operand& a, const Operand& b) {
  return compare(name, a, b, [&](Builder& e, const Terms& t) { return e.apply(function, t[0], t[1]); });
}
/// 1 or 0: whether a comparison holds or a and b are equal. Not by its opposite, which a NaN would pass.
Tensor compare_or_equal(std::string_view name, Function function, const Operand& a, const Operand& b) {
  return compare(name, a, b, [&](Builder& e, const Terms& t) {
    return e.apply(function, t[0], t[1]) + e.apply(Function::equal, t[0], t[1]);
  });
}

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : x.tape().tensor(x.tape().record_cast(x.id(), dtype));
}

Tensor relu(const Tensor& x) { return apply_op(std::make_shared<ops::Relu>(), {x}); }

Tensor relu6(const Tensor& x) { return apply_op(std::make_shared<ops::Relu6>(), {x}); }

Tensor scale(const Tensor& x, double factor) { return apply_op(std::make_shared<ops::Scale>(factor), {x}); }

Tensor scale(const Tensor& x, const Tensor& factor) { return apply_op(std::make_shared<ops::ScaleBy>(), {x, factor}); }

Tensor sum(std::span<const Tensor> inputs) { return apply_op(std::make_shared<ops::Sum>(), inputs); }

Tensor weighted_sum(const Tensor& weights, std::span<const Tensor> inputs) {
  std::vector<Tensor> all{weights};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return apply_op(std::make_shared<ops::WeightedSum>(), all);
}

Tensor add(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return binary(Function::add, a, b);
  return called("add", [&] { return apply_op(std::make_shared<ops::Sum>(), {a, b}); });
}

Tensor sub(const Tensor& a, const Tensor& b) { return binary(Function::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(Function::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(Function::div, a, b); }
Tensor operator+(const Tensor& a, double b) { return binary(Function::add, a, b); }
Tensor operator-(const Tensor& a, double b) { return binary(Function::sub, a, b); }
Tensor operator-(double a, const Tensor& b) { return binary(Function::sub, a, b); }
Tensor operator/(const Tensor& a, double b) { return binary(Function::div, a, b); }
Tensor operator/(double a, const Tensor& b) { return binary(Function::div, a, b); }
Tensor operator-(const Tensor& a) { return unary(Function::neg, a); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(Function::minimum, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(Function::maximum, a, b); }

Tensor clamp(const Tensor& x, double least, double most) {
  BRAID_CHECK(least <= most, Error, "[clamp] expected bounds in this order, got ", least, " and ", most);
  return compute("clamp", {x}, [&](Builder& e, const Terms& t) { return clamped(e, t[0], least, most); });
}

Tensor exp(const Tensor& x) { return unary(Function::exp, x); }
Tensor log(const Tensor& x) { return unary(Function::log, x); }
Tensor sqrt(const Tensor& x) { return unary(Function::sqrt, x); }
Tensor square(const Tensor& x) {
  return called("square", [&] { return binary(Function::mul, x, x); });
}
Tensor pow(const Operand& base, const Operand& exponent) {
  return compute("pow", {base, exponent},
                 [](Builder& e, const Terms& t) { return e.apply(Function::pow, t[0], t[1]); });
}
Tensor abs(const Tensor& x) { return unary(Function::abs, x); }
Tensor sign(const Tensor& x) { return unary(Function::sign, x); }
Tensor sigmoid(const Tensor& x) { return unary(Function::sigmoid, x); }
Tensor tanh(const Tensor& x) { return unary(Function::tanh, x); }
Tensor softplus(const Tensor& x) { return unary(Function::softplus, x); }
Tensor silu(const Tensor& x) { return unary(Function::silu, x); }
Tensor leaky_relu(const Tensor& x, double slope) { return binary(Function::leaky_relu, x, slope); }

/// eˣ − 1 by the hyperbolic tangent of x/2, which is precise near 0.
Tensor elu(const Tensor& x, double alpha) {
  return compute("elu", {x}, [&](Builder& e, const Terms& t) {
    const ops::Term zero = e.constant(0), half = e.apply(Function::tanh, 0.5 * e.apply(Function::minimum, t[0], zero));
    return e.apply(Function::maximum, t[0], zero) + 2 * alpha * half / (1 - half);
  });
}

Tensor hardsigmoid(const Tensor& x) {
  return compute("hardsigmoid", {x},
                 [](Builder& e, const Terms& t) { return clamped(e, t[0] + e.constant(3), 0, 6) / e.constant(6); });
}

Tensor hardswish(const Tensor& x) {
  return compute("hardswish", {x}, [](Builder& e, const Terms& t) {
    return t[0] * clamped(e, t[0] + e.constant(3), 0, 6) / e.constant(6);
  });
}

Tensor gelu(const Tensor& x, Gelu approximation) {
  return unary(approximation == Gelu::exact ? Function::gelu : Function::gelu_tanh, x);
}

Tensor eq(const Operand& a, const Operand& b) { return compare("eq", Function::equal, a, b); }
Tensor gt(const Operand& a, const Operand& b) { return compare("gt", Function::greater, a, b); }
Tensor lt(const Operand& a, const Operand& b) { return compare("lt", Function::less, a, b); }
Tensor ne(const Operand& a, const Operand& b) {
  return compare("ne", a, b, [](Builder& e, const Terms& t) { return 1 - e.apply(Function::equal, t[0], t[1]); });
}
Tensor ge(const Operand& a, const Operand& b) { return compare_or_equal("ge", Function::greater, a, b); }
Tensor le(const Operand& a, const Operand& b) { return compare_or_equal("le", Function::less, a, b); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  return compute("where", {condition, a, b}, [](Builder& e, const Terms& t) {
    const ops::Term is_not = e.apply(Function::equal, t[0], e.constant(0));
    return e.apply(Function::gate, t[1], 1 - is_not) + e.apply(Function::gate, t[2], is_not);
  });
}

namespace {

Tensor random(Tape& tape, const Shape& shape, DType dtype, bool normal) {
  const auto is_call = [](const Node& node) { return dynamic_cast<const ops::Random*>(node.op.get()) != nullptr; };
  const auto calls = static_cast<std::uint32_t>(std::ranges::count_if(tape.graph().nodes(), is_call));
  const ValueDesc desc{dtype, shape};
  return apply_op(std::make_shared<ops::Random>(desc, normal, tape.context().random().seed, calls),
                  {tape.tensor(tape.step_number())});
}

}  // namespace

Tensor rand(const Shape& shape, DType dtype) { return random(Tape::current(), shape, dtype, false); }
Tensor randn(const Shape& shape, DType dtype) { return random(Tape::current(), shape, dtype, true); }
Tensor rand_like(const Tensor& x) { return random(x.tape(), x.shape(), x.dtype(), false); }
Tensor randn_like(const Tensor& x) { return random(x.tape(), x.shape(), x.dtype(), true); }

Shape Axes::of(std::string_view function, const Shape& shape) const {
  std::array<bool, Shape::kMaxRank> chosen{};
  for (const std::int64_t axis : axes_) {
    BRAID_CHECK(axis >= -shape.rank() && axis < shape.rank(), ShapeError, "[", function, "] expected axes of ", shape,
                ", from ", -shape.rank(), " to ", shape.rank() - 1, ", got ", axis);
    bool& own = chosen[axis < 0 ? axis + shape.rank() : axis];
    BRAID_CHECK(!own, ShapeError, "[", function, "] expected different axes, got ", axis, " twice");
    own = true;
  }
  std::array<std::int64_t, Shape::kMaxRank> list{};
  std::size_t count = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes_.empty() || chosen[axis]) list[count++] = axis;
  }
  return Shape(std::span(list).first(count));
}

Tensor sum(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::sum, "sum", x, axes, keep_axes);
}
Tensor mean(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::mean, "mean", x, axes, keep_axes);
}
Tensor amax(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::max, "amax", x, axes, keep_axes);
}
Tensor amin(const Tensor& x, const Axes& axes, bool keep_axes) {
  return reduce(ops::ReduceKind::min, "amin", x, axes, keep_axes);
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keep_axes) {
  const Tensor squares = square(x - reduce(ops::ReduceKind::mean, "var", x, axes, true));
  const Tensor total = reduce(ops::ReduceKind::sum, "var", squares, axes, keep_axes);
  const auto count =
      static_cast<double>(x.shape().size()) / static_cast<double>(std::max<std::int64_t>(1, total.shape().size()));
  return total / std::max(0.0, count - correction);
}

Tensor stddev(const Tensor& x, const Axes& axes, double correction, bool keep_axes) {
  return sqrt(var(x, axes, correction, keep_axes));
}

/// Roots of 0 are left out of the gradient, which would be infinite.
Tensor norm(const Tensor& x, double p, const Axes& axes, bool keep_axes) {
  BRAID_CHECK(p > 0, Error, "[norm] expected an order above 0, got ", p);
  const auto total = [&](const Tensor& terms) { return reduce(ops::ReduceKind::sum, "norm", terms, axes, keep_axes); };
  if (std::isinf(p)) return reduce(ops::ReduceKind::max, "norm", abs(x), axes, keep_axes);
  if (p == 1) return total(abs(x));
  const Tensor powers = total(p == 2 ? square(x) : pow(abs(x), p));
  const Tensor positive = ne(powers, 0), safe = where(positive, powers, 1);
  return where(positive, p == 2 ? sqrt(safe) : pow(safe, 1 / p), 0);
}

/// Infinite largest elements are not subtracted: the difference would be a NaN. No elements have no largest one.
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep_axes) {
  if (x.shape().size() == 0) return log(reduce(ops::ReduceKind::sum, "logsumexp", x, axes, keep_axes));
  const Tensor largest = detach(reduce(ops::ReduceKind::max, "logsumexp", x, axes, true));
  const Tensor shift = where(lt(abs(largest), std::numeric_limits<double>::infinity()), largest, 0);
  const Tensor y = log(reduce(ops::ReduceKind::sum, "logsumexp", exp(x - shift), axes, true)) + shift;
  return keep_axes ? y : view(y, ops::reduced_shape(x.shape(), axes.of("logsumexp", x.shape()), false));
}

TopK topk(const Tensor& x, std::int64_t k, int axis, bool largest) {
  const int last = x.shape().rank() - 1;
  axis = axis_of("topk", x, axis);
  const Tensor rows = axis == last ? x : transpose(x, axis, last);
  const auto op = std::make_shared<ops::TopK>(k, largest);
  const std::vector<Tensor> found = outputs_of(called("topk", [&] { return apply_op(op, {rows}); }));
  if (axis == last) return {found[0], found[1]};
  return {transpose(found[0], axis, last), transpose(found[1], axis, last)};
}

TopK sort(const Tensor& x, int axis, bool descending) {
  return topk(x, x.shape()[axis_of("sort", x, axis)], axis, descending);
}

namespace {

Tensor place_of_first(std::string_view function, const Tensor& x, int axis, bool keep_axis, bool largest) {
  axis = axis_of(function, x, axis);
  BRAID_CHECK(x.shape()[axis] > 0, ShapeError, "[", function, "] expected elements along axis ", axis,
              ", got none (input is ", x.shape(), ")");
  const Tensor place = topk(x, 1, axis, largest).indices;
  return keep_axis ? place : squeeze(place, axis);
}

}  // namespace

Tensor argmax(const Tensor& x, int axis, bool keep_axis) { return place_of_first("argmax", x, axis, keep_axis, true); }
Tensor argmin(const Tensor& x, int axis, bool keep_axis) { return place_of_first("argmin", x, axis, keep_axis, false); }

Tensor softmax(const Tensor& x, int axis) { return softmax_op("softmax", x, axis, false); }
Tensor log_softmax(const Tensor& x, int axis) { return softmax_op("log_softmax", x, axis, true); }

}  // namespace braid
