#pragma once
// An elementwise expression made ready to run: results that are needed at the same time are in different slots, and
// every input knows how it is broadcast.

#include <algorithm>

#include "ops/elementwise/expression.h"

namespace braid {

/// Where an operand's elements are: inputs from 0, constants from kConstant, slots from kSlot.
struct ExpressionProgram {
  static constexpr int kConstant = ops::Expression::kFirstConstant, kSlot = ops::Expression::kFirstResult;
  /// Few, because they take shared memory in CUDA kernels.
  static constexpr int kMaxSlots = 4;

  struct Step {
    Function function;
    std::uint8_t a, b;
    std::uint8_t slot;  ///< where the result goes; that of the last step is the output
  };

  Step steps[ops::Expression::kMaxInstructions];
  int count = 0;
  double constants[ops::Expression::kMaxConstants] = {};
  int constant_count = 0;
  int slots = 0;

  /// Throws Error if more than kMaxSlots results are needed at a time.
  explicit ExpressionProgram(const ops::Expression& expression) {
    constexpr std::size_t kFirst = ops::Expression::kFirstResult;
    std::uint8_t slot_of[ops::Expression::kMaxInstructions] = {};
    slots = place_results(expression, slot_of);
    BRAID_CHECK(slots <= kMaxSlots, Error, "[elementwise] an expression needs more than ", kMaxSlots,
                " results at a time");
    for (std::size_t i = 0; i < expression.instructions.size(); ++i) {
      const auto place = [&](std::uint8_t operand) {
        return operand < kFirst ? operand : static_cast<std::uint8_t>(kSlot + slot_of[operand - kFirst]);
      };
      const ops::Instruction& instruction = expression.instructions[i];
      steps[i] = {instruction.function, place(instruction.a), place(instruction.b), slot_of[i]};
    }
    count = static_cast<int>(expression.instructions.size());
    for (const double constant : expression.constants) constants[constant_count++] = constant;
  }

  /// Whether few enough results are needed at a time.
  static bool fits(const ops::Expression& expression) {
    std::uint8_t slot_of[ops::Expression::kMaxInstructions] = {};
    return place_results(expression, slot_of) <= kMaxSlots;
  }

  int constant_end() const { return kConstant + constant_count; }

 private:
  /// Gives every result the first slot whose result is not needed any more. Returns the number of slots.
  static int place_results(const ops::Expression& expression,
                           std::uint8_t (&slot_of)[ops::Expression::kMaxInstructions]) {
    constexpr std::size_t kFirst = ops::Expression::kFirstResult;
    std::size_t last_use[ops::Expression::kMaxInstructions] = {}, free_from[ops::Expression::kMaxInstructions] = {};
    const auto& instructions = expression.instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for (const std::size_t operand : {instructions[i].a, instructions[i].b}) {
        if (operand >= kFirst) last_use[operand - kFirst] = i;
      }
    }
    std::size_t count = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      std::size_t slot = 0;
      while (free_from[slot] > i) ++slot;
      slot_of[i] = static_cast<std::uint8_t>(slot);
      free_from[slot] = std::max(last_use[i], i);
      count = std::max(count, slot + 1);
    }
    return static_cast<int>(count);
  }
};

/// How an input is broadcast to the output: axes of the output, merged where the input continues or is repeated along
/// both, with the input's stride, which is 0 where it is repeated.
struct Broadcast {
  int rank = 0;
  std::int64_t extent[Shape::kMaxRank] = {};
  std::int64_t stride[Shape::kMaxRank] = {};

  Broadcast() = default;
  Broadcast(const Shape& input, const Shape& output) {
    std::int64_t strides[Shape::kMaxRank] = {}, step = 1;
    for (int axis = output.rank(); axis-- > 0;) {
      const std::int64_t own = ops::extent_along(input, axis, output.rank());
      strides[axis] = own == 1 ? 0 : step;
      step *= own;
    }
    for (int axis = 0; axis < output.rank(); ++axis) {
      if (output[axis] == 1) continue;
      const bool merges =
          rank > 0 && (stride[rank - 1] == 0 ? strides[axis] == 0 : stride[rank - 1] == strides[axis] * output[axis]);
      if (!merges) extent[rank++] = 1;
      extent[rank - 1] *= output[axis];
      stride[rank - 1] = strides[axis];
    }
  }

  /// Whether input and output have the same layout.
  bool is_full() const { return rank == 0 || (rank == 1 && stride[0] == 1); }
  /// Whether the input is a single element.
  bool is_scalar() const { return rank == 0 || (rank == 1 && stride[0] == 0); }
};

}  // namespace braid
