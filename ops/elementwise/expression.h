#pragma once
// Elementwise arithmetic as data: one op computes any small expression of its inputs, element by element, with NumPy's
// broadcasting. So the functions that users call, their derivatives, and chains of both share one kernel per device.

#include "core/graph/op.h"
#include "ops/common/inline_list.h"
#include "ops/elementwise/functions.h"

namespace braid::ops {

/// Applies a function to one or two operands. Operands are numbered: inputs from 0, constants from kFirstConstant, and
/// results of earlier instructions from kFirstResult.
struct Instruction {
  Function function;
  std::uint8_t a = 0;
  std::uint8_t b = 0;
  static constexpr std::string_view kNames[] = {"function", "a", "b"};
};

struct Expression {
  static constexpr std::size_t kMaxInputs = 8, kMaxConstants = 8, kMaxInstructions = 24;
  static constexpr std::uint8_t kFirstConstant = kMaxInputs, kFirstResult = kMaxInputs + kMaxConstants;
  static constexpr std::size_t kOperands = kFirstResult + kMaxInstructions;

  InlineList<Instruction, kMaxInstructions> instructions;
  InlineList<double, kMaxConstants> constants;
  static constexpr std::string_view kNames[] = {"instructions", "constants"};

  /// The operand that is the value of the expression: the last result, or input 0 if there is no instruction.
  std::uint8_t result() const {
    return static_cast<std::uint8_t>(instructions.empty() ? 0 : kFirstResult + instructions.size() - 1);
  }
};

class ExpressionBuilder;

/// An operand of an expression that is being built. Terms combine with the operators of C++.
struct Term {
  ExpressionBuilder* builder = nullptr;
  std::uint8_t operand = 0;
};

class ExpressionBuilder {
 public:
  Term input(std::size_t i) { return {this, static_cast<std::uint8_t>(i)}; }
  Term constant(double value);
  Term apply(Function function, Term a, Term b);
  Term apply(Function function, Term a) { return apply(function, a, a); }
  /// The expression with this value, which must be of all inputs.
  Expression finish(Term value) const {
    InlineList<std::uint8_t, Expression::kMaxInputs> inputs;
    return finish(value, inputs);
  }
  /// The expression with this value, without unused instructions and inputs. Its input i is input inputs[i] here.
  Expression finish(Term value, InlineList<std::uint8_t, Expression::kMaxInputs>& inputs) const;

 private:
  Expression expression_;
};

inline Term operator+(Term a, Term b) { return a.builder->apply(Function::add, a, b); }
inline Term operator-(Term a, Term b) { return a.builder->apply(Function::sub, a, b); }
inline Term operator*(Term a, Term b) { return a.builder->apply(Function::mul, a, b); }
inline Term operator/(Term a, Term b) { return a.builder->apply(Function::div, a, b); }
inline Term operator-(Term a) { return a.builder->apply(Function::neg, a); }
inline Term operator-(Term a, double b) { return a - a.builder->constant(b); }
inline Term operator-(double a, Term b) { return b.builder->constant(a) - b; }
inline Term operator*(double a, Term b) { return b.builder->constant(a) * b; }

/// The extent of a shape along an axis of the shape of a higher rank that it broadcasts to.
inline std::int64_t extent_along(const Shape& shape, int axis, int rank) {
  return rank - axis > shape.rank() ? 1 : shape[axis - rank];
}

/// The shape that two shapes broadcast to, as in NumPy. Throws ShapeError in the name of the op.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

struct ElementwiseAttributes {
  Expression expression;
  Shape broadcast_to = {};  ///< the output's shape is broadcast from this and the inputs'; [] adds nothing
  static constexpr std::string_view kNames[] = {"expression", "broadcast_to"};
};

/// One to kMaxInputs inputs of one floating type, whose shapes broadcast → the expression's value.
/// Derivatives are PyTorch's: |x|' = 0 at 0, equal operands of a minimum or maximum share its gradient evenly, and a
/// clamp passes none at its bounds.
class Elementwise final : public OpWith<Elementwise, ElementwiseAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "elementwise"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
  OpPtr for_part(const Shape& output, char axis) const override;
};

/// The op of one function. All calls share one object, because recording must be cheap.
const OpPtr& elementwise(Function function);
/// The op of one function whose second operand (or first) is a constant.
OpPtr elementwise(Function function, double constant, bool constant_first = false);

}  // namespace braid::ops
