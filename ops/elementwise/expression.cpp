#include "ops/elementwise/expression.h"

#include "ops/common/check.h"
#include "ops/elementwise/expression_program.h"
#include "ops/elementwise/reduce.h"
#include "ops/layout/reshape.h"

namespace braid::ops {

namespace {

/// Maps the gradient dy of r = f(a, b) to that of an operand.
using Derivative = Term (*)(Term dy, Term a, Term b, Term r);

/// The cost and the derivatives of a function.
struct FunctionRule {
  double flops = 1;
  Derivative a = nullptr;  ///< null if there is none
  Derivative b = nullptr;
};

#define BRAID_DERIVATIVE(term) \
  [](Term dy, Term a, Term b, Term r) { return (void)dy, (void)a, (void)b, (void)r, (term); }

Term slope(Function function, Term dy, Term a, Term b) { return dy * dy.builder->apply(function, a, b); }
Term slope(Function function, Term dy, Term a) { return slope(function, dy, a, a); }
Term gated(Function function, Term dy, Term a, Term b) {
  return dy.builder->apply(Function::gate, dy, dy.builder->apply(function, a, b));
}

/// σ(1 − σ)(2 + a(1 − 2σ))
Term silu_curvature(Term dy, Term a) {
  const Term s = dy.builder->apply(Function::sigmoid, a), other = 1 - s;
  return dy * (s * other * (a * (other - s) + dy.builder->constant(2)));
}

/// φ(a)(2 − a²), φ being the density of the normal distribution
Term gelu_curvature(Term dy, Term a) {
  const Term square = a * a, density = 0.39894228040143267794 * dy.builder->apply(Function::exp, -0.5 * square);
  return dy * (density * (2 - square));
}

/// (1 − t²)(u' + a(u''/2 − t·u'²)), t being the hyperbolic tangent of u = √(2/π)(a + 0.044715a³)
Term gelu_tanh_curvature(Term dy, Term a) {
  constexpr double kRoot = 0.79788456080286535588, kCube = 0.044715;
  const Term square = a * a, one = dy.builder->constant(1);
  const Term t = dy.builder->apply(Function::tanh, kRoot * a * (one + kCube * square));
  const Term slope = kRoot * (one + 3 * kCube * square), half_curvature = 3 * kRoot * kCube * a;
  return dy * ((one - t * t) * (slope + a * (half_curvature - t * slope * slope)));
}

FunctionRule rule_of(Function function) {
  using enum Function;
  switch (function) {
    case add: return {1, BRAID_DERIVATIVE(dy), BRAID_DERIVATIVE(dy)};
    case sub: return {1, BRAID_DERIVATIVE(dy), BRAID_DERIVATIVE(-dy)};
    case mul: return {1, BRAID_DERIVATIVE(dy * b), BRAID_DERIVATIVE(dy * a)};
    case div: return {4, BRAID_DERIVATIVE(dy / b), BRAID_DERIVATIVE(-dy * (r / b))};
    case minimum:
      return {1, BRAID_DERIVATIVE(gated(maximum_share, dy, b, a)), BRAID_DERIVATIVE(gated(maximum_share, dy, a, b))};
    case maximum:
      return {1, BRAID_DERIVATIVE(gated(maximum_share, dy, a, b)), BRAID_DERIVATIVE(gated(maximum_share, dy, b, a))};
    case clamp_min:
      return {1, BRAID_DERIVATIVE(gated(greater, dy, a, b)),
              BRAID_DERIVATIVE(dy * (1 - a.builder->apply(greater, a, b)))};
    case clamp_max:
      return {1, BRAID_DERIVATIVE(gated(less, dy, a, b)), BRAID_DERIVATIVE(dy * (1 - a.builder->apply(less, a, b)))};
    case pow:
      return {40, BRAID_DERIVATIVE(dy.builder->apply(gate, dy * dy.builder->apply(pow, a, b - 1), b)),
              BRAID_DERIVATIVE(dy.builder->apply(gate, dy * dy.builder->apply(log, a), r))};
    case neg: return {1, BRAID_DERIVATIVE(-dy)};
    case abs: return {1, BRAID_DERIVATIVE(slope(sign, dy, a))};
    case exp: return {12, BRAID_DERIVATIVE(dy * r)};
    case log: return {16, BRAID_DERIVATIVE(dy / a)};
    case sqrt: return {4, BRAID_DERIVATIVE(dy / (2 * r))};
    case sigmoid: return {16, BRAID_DERIVATIVE(dy * (r * (1 - r)))};
    case tanh: return {20, BRAID_DERIVATIVE(dy * (1 - r * r))};
    case gelu: return {24, BRAID_DERIVATIVE(slope(gelu_slope, dy, a))};
    case gelu_tanh: return {28, BRAID_DERIVATIVE(slope(gelu_tanh_slope, dy, a))};
    case silu: return {16, BRAID_DERIVATIVE(slope(silu_slope, dy, a))};
    case leaky_relu:
      return {1, BRAID_DERIVATIVE(slope(leaky_relu_slope, dy, a, b)),
              BRAID_DERIVATIVE(slope(minimum, dy, a, dy.builder->constant(0)))};
    case softplus: return {36, BRAID_DERIVATIVE(slope(sigmoid, dy, a))};
    case bce_with_logits:
      return {38, BRAID_DERIVATIVE(dy * (dy.builder->apply(sigmoid, a) - b)), BRAID_DERIVATIVE(-dy * a)};
    case gate: return {1, BRAID_DERIVATIVE(dy.builder->apply(gate, dy, b)), BRAID_DERIVATIVE(dy * a)};
    case gelu_slope: return {36, BRAID_DERIVATIVE(gelu_curvature(dy, a))};
    case gelu_tanh_slope: return {36, BRAID_DERIVATIVE(gelu_tanh_curvature(dy, a))};
    case silu_slope: return {20, BRAID_DERIVATIVE(silu_curvature(dy, a))};
    default: return {};  // steps: their derivative is 0
  }
}

std::string_view shown_name(const Expression& expression) {
  const bool single = expression.instructions.size() == 1;
  return single ? name_of(expression.instructions[0].function) : std::string_view("elementwise");
}

/// Whether broadcasting the shape to the full one repeats nothing along these axes of the full one.
bool is_constant_along(const Shape& shape, const Shape& full, const Shape& axes) {
  return std::ranges::all_of(
      axes.extents(), [&](std::int64_t axis) { return extent_along(shape, static_cast<int>(axis), full.rank()) == 1; });
}

/// The axes of the full shape along which the other one was repeated.
Shape repeated_axes(const Shape& shape, const Shape& full) {
  std::array<std::int64_t, Shape::kMaxRank> axes{};
  std::size_t count = 0;
  for (int axis = 0; axis < full.rank(); ++axis) {
    if (full[axis] != 1 && extent_along(shape, axis, full.rank()) == 1) axes[count++] = axis;
  }
  return Shape(std::span(axes).first(count));
}

/// A node for each instruction, where a kernel would need more results at a time than it has room for.
ValueId record_one_by_one(GradientContext& context, const Expression& expression, std::span<const ValueId> inputs) {
  std::vector<ValueId> results;
  for (const Instruction& at : expression.instructions) {
    ExpressionBuilder builder;
    std::vector<ValueId> values;
    const auto term = [&](std::uint8_t operand) {
      if (operand >= Expression::kFirstConstant && operand < Expression::kFirstResult) {
        return builder.constant(expression.constants[operand - Expression::kFirstConstant]);
      }
      values.push_back(operand < Expression::kFirstConstant ? inputs[operand]
                                                            : results[operand - Expression::kFirstResult]);
      return builder.input(values.size() - 1);
    };
    const Term a = term(at.a), b = arity_of(at.function) == 2 ? term(at.b) : a;
    results.push_back(
        context.record(std::make_shared<Elementwise>(builder.finish(builder.apply(at.function, a, b))), values));
  }
  return results.back();
}

ValueId sum_along(GradientContext& context, ValueId value, const Shape& axes) {
  return context.record(std::make_shared<Reduce>(ReduceKind::sum, axes, true), {value});
}

}  // namespace

Term ExpressionBuilder::constant(double value) {
  auto& constants = expression_.constants;
  std::size_t i = 0;
  while (i < constants.size() && !attribute::equal(constants[i], value)) ++i;
  if (i == constants.size()) constants.push_back(value);
  return {this, static_cast<std::uint8_t>(Expression::kFirstConstant + i)};
}

Term ExpressionBuilder::apply(Function function, Term a, Term b) {
  expression_.instructions.push_back({function, a.operand, b.operand});
  return {this, expression_.result()};
}

Expression ExpressionBuilder::finish(Term value, InlineList<std::uint8_t, Expression::kMaxInputs>& inputs) const {
  std::array<bool, Expression::kOperands> used{};
  std::array<std::uint8_t, Expression::kOperands> renamed{};
  used[value.operand] = true;
  for (std::size_t i = expression_.instructions.size(); i-- > 0;) {
    if (!used[Expression::kFirstResult + i]) continue;
    used[expression_.instructions[i].a] = used[expression_.instructions[i].b] = true;
  }
  Expression shorter;
  for (std::uint8_t i = 0; i < Expression::kMaxInputs; ++i) {
    if (!used[i]) continue;
    renamed[i] = static_cast<std::uint8_t>(inputs.size());
    inputs.push_back(i);
  }
  for (std::size_t i = 0; i < expression_.constants.size(); ++i) {
    if (!used[Expression::kFirstConstant + i]) continue;
    renamed[Expression::kFirstConstant + i] =
        static_cast<std::uint8_t>(Expression::kFirstConstant + shorter.constants.size());
    shorter.constants.push_back(expression_.constants[i]);
  }
  for (std::size_t i = 0; i < expression_.instructions.size(); ++i) {
    if (!used[Expression::kFirstResult + i]) continue;
    const Instruction& old = expression_.instructions[i];
    shorter.instructions.push_back({old.function, renamed[old.a], renamed[old.b]});
    renamed[Expression::kFirstResult + i] = shorter.result();
  }
  return shorter;
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t of_a = extent_along(a, axis, rank), of_b = extent_along(b, axis, rank);
    BRAID_CHECK(of_a == of_b || of_a == 1 || of_b == 1, ShapeError, "[", op, "] shapes ", a, " and ", b,
                " do not broadcast: axis ", axis, " is ", of_a, " and ", of_b);
    extents[static_cast<std::size_t>(axis)] = of_a == 1 ? of_b : of_a;
  }
  return Shape(std::span(extents).first(static_cast<std::size_t>(rank)));
}

void Elementwise::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const Expression& expression = attributes_.expression;
  const std::string_view op = shown_name(expression);
  BRAID_CHECK(!inputs.empty() && inputs.size() <= Expression::kMaxInputs, ShapeError, "[", op, "] expected 1 to ",
              Expression::kMaxInputs, " inputs, got ", inputs.size());
  Shape shape = attributes_.broadcast_to;
  for (const ValueDesc& input : inputs) {
    check_floating(op, "an input", input);
    BRAID_CHECK(input.dtype == inputs[0].dtype, ShapeError, "[", op, "] expected inputs of one type, got ",
                inputs[0].dtype, " and ", input.dtype, ": cast() one of them");
    shape = broadcast_shape(op, shape, input.shape);
  }
  std::size_t results = 0;
  for (const Instruction& instruction : expression.instructions) {
    for (const std::uint8_t operand : {instruction.a, instruction.b}) {
      const bool known = operand < Expression::kFirstConstant ? operand < inputs.size()
                         : operand < Expression::kFirstResult
                             ? operand - std::size_t{Expression::kFirstConstant} < expression.constants.size()
                             : operand - std::size_t{Expression::kFirstResult} < results;
      BRAID_CHECK(known, ShapeError, "[", op, "] operand ", +operand, " of instruction ", results,
                  " is no input, constant or earlier result");
    }
    ++results;
  }
  int reuses = -1;
  for (std::size_t i = inputs.size(); i-- > 0;) {
    if (inputs[i].shape == shape) reuses = static_cast<int>(i);
  }
  outputs.push_back({.dtype = inputs[0].dtype, .shape = shape, .reuses = reuses});
}

Work Elementwise::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  double flops = 0;
  for (const Instruction& instruction : attributes_.expression.instructions) {
    flops += rule_of(instruction.function).flops;
  }
  return Op::work(inputs, outputs).with_flops(flops * static_cast<double>(outputs[0].shape.size()));
}

// Reverse-mode differentiation of the expression for one input after the other. Each gradient is an expression of dy,
// the inputs and the output; results of other instructions are recomputed.
void Elementwise::gradient(GradientContext& context) const {
  const Expression& forward = attributes_.expression;
  const auto count = static_cast<std::size_t>(context.input_count());
  BRAID_CHECK(count + 2 <= Expression::kMaxInputs, Error, "[elementwise] has a gradient for at most ",
              Expression::kMaxInputs - 2, " inputs, got ", count);
  const ValueId dy = context.output_gradient(0), y = context.output(0);
  const Shape full = context.desc(y).shape;

  for (std::size_t i = 0; i < count; ++i) {
    if (!context.needs(static_cast<int>(i))) continue;
    // Inputs of the gradient's expression: dy, then those of this op, then y.
    ExpressionBuilder builder;
    std::array<Term, Expression::kOperands> terms{}, gradients{};
    std::array<bool, Expression::kOperands> depends{};
    for (std::size_t k = 0; k < count; ++k) terms[k] = builder.input(1 + k);
    for (std::size_t k = 0; k < forward.constants.size(); ++k) {
      terms[Expression::kFirstConstant + k] = builder.constant(forward.constants[k]);
    }
    depends[i] = true;
    for (std::size_t k = 0; k < forward.instructions.size(); ++k) {
      const Instruction& at = forward.instructions[k];
      const std::size_t result = Expression::kFirstResult + k;
      terms[result] = k + 1 == forward.instructions.size() ? builder.input(1 + count)
                                                           : builder.apply(at.function, terms[at.a], terms[at.b]);
      depends[result] = depends[at.a] || (arity_of(at.function) == 2 && depends[at.b]);
    }
    gradients[forward.result()] = builder.input(0);
    const auto add = [&](std::uint8_t operand, Derivative derivative, const Instruction& at, Term d, Term r) {
      if (!depends[operand] || derivative == nullptr) return;
      const Term part = derivative(d, terms[at.a], terms[at.b], r);
      Term& total = gradients[operand];
      total = total.builder == nullptr ? part : total + part;
    };
    for (std::size_t k = forward.instructions.size(); k-- > 0;) {
      const Instruction& at = forward.instructions[k];
      const Term d = gradients[Expression::kFirstResult + k], r = terms[Expression::kFirstResult + k];
      if (d.builder == nullptr) continue;
      const FunctionRule rule = rule_of(at.function);
      add(at.a, rule.a, at, d, r);
      if (arity_of(at.function) == 2) add(at.b, rule.b, at, d, r);
    }
    if (gradients[i].builder == nullptr) continue;  // a constant: no gradient

    InlineList<std::uint8_t, Expression::kMaxInputs> used;
    const Expression expression = builder.finish(gradients[i], used);
    std::array<ValueId, Expression::kMaxInputs> operands{};
    const Shape& shape = context.desc(context.input(static_cast<int>(i))).shape;
    const Shape axes = repeated_axes(shape, full);
    bool sum_first = axes.rank() > 0;  // the rest of the expression does not vary along the axes, and is linear in dy
    for (std::size_t k = 0; k < used.size(); ++k) {
      const std::size_t place = used[k];
      operands[k] = place == 0 ? dy : place == 1 + count ? y : context.input(static_cast<int>(place - 1));
      if (place > 0) sum_first = sum_first && is_constant_along(context.desc(operands[k]).shape, full, axes);
    }
    if (sum_first) operands[0] = sum_along(context, dy, axes);
    ValueId gradient = operands[0];
    if (!expression.instructions.empty()) {
      const auto values = std::span(operands).first(used.size());
      gradient = ExpressionProgram::fits(expression) ? context.record(std::make_shared<Elementwise>(expression), values)
                                                     : record_one_by_one(context, expression, values);
    }
    if (axes.rank() > 0 && !sum_first) gradient = sum_along(context, gradient, axes);
    if (context.desc(gradient).shape != shape) gradient = context.record(std::make_shared<Reshape>(shape), {gradient});
    context.set_input_gradient(static_cast<int>(i), gradient);
  }
}

const OpPtr& elementwise(Function function) {
  static const auto ops = [] {
    std::array<OpPtr, kFunctions> list;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto f = static_cast<Function>(i);
      Expression expression;
      expression.instructions.push_back({f, 0, static_cast<std::uint8_t>(arity_of(f) - 1)});
      list[i] = std::make_shared<Elementwise>(expression);
    }
    return list;
  }();
  return ops[static_cast<std::size_t>(function)];
}

OpPtr elementwise(Function function, double constant, bool constant_first) {
  Expression expression;
  expression.constants.push_back(constant);
  const std::uint8_t c = Expression::kFirstConstant, x = 0;
  expression.instructions.push_back({function, constant_first ? c : x, constant_first ? x : c});
  return std::make_shared<Elementwise>(expression);
}

OpAxes Elementwise::axes(const NodeValues& node) const {
  const Shape& y = node.outputs[0].shape;
  const std::string of_y = OpAxes::by_place(y.rank());
  std::string notation;
  for (const ValueDesc& input : node.inputs) {
    const int lacking = y.rank() - input.shape.rank();
    for (int i = lacking; i < y.rank(); ++i) {
      notation += input.shape[i - lacking] == y[i] ? of_y[static_cast<std::size_t>(i)] : '_';
    }
    if (&input != &node.inputs.back()) notation += ',';
  }
  return {notation + "->" + of_y};
}

OpPtr Elementwise::for_part(const Shape& output, char) const {
  auto [expression, broadcast_to] = attributes();
  const int lacking = output.rank() - broadcast_to.rank();
  for (int i = 0; i < broadcast_to.rank(); ++i) {
    if (broadcast_to[i] != 1) broadcast_to = broadcast_to.with(i, output[i + lacking]);
  }
  return broadcast_to == attributes_.broadcast_to ? nullptr : std::make_shared<Elementwise>(expression, broadcast_to);
}

}  // namespace braid::ops
