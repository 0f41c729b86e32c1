#pragma once
// The declarative table of all ops.
//
// To add an op: add one row or more to op_table() with odd sizes, a size of 1, an empty tensor where that is legal, and
// every option that changes the arithmetic. List the inputs that have gradients in `differentiable`; these are checked
// unless that takes too long. A row of more than 65536 elements is cut into several pieces of parallel work.
// Everything in op_table_test.cpp then holds for the new op, and a kernel without a row fails there.

#include "core/graph/array.h"
#include "core/graph/op.h"

namespace braid::testing {

/// What an input holds, which also tells its dtype: the row's floating type for the first three.
enum class Data {
  normal,    ///< standard normal
  wide,      ///< normal with deviation 6, so that a ReLU6 cuts on both sides
  positive,  ///< between 0.5 and 1.5, as a variance
  label,     ///< i32, smaller than the channels of input 0
  step,      ///< i32, a step number
  shard,     ///< i32, the number of a shard: 1
  index,     ///< i32, 0 to 2
  place,     ///< u8, 0 to 3
  rate,      ///< f64 in every row, learning rates and factors
  scale,     ///< f32 in every row, the scale of a loss
};

struct Input {
  Shape shape;
  Data data = Data::normal;
  bool wide = false;  ///< f32 where the row's type is f16 or bf16, as a statistic or a master weight
};

struct OpRow {
  OpPtr op;
  std::vector<Input> inputs;
  std::vector<int> differentiable = {};
};

const std::vector<OpRow>& op_table();

/// Ops of the same class as the row's that differ from it in one attribute each: every attribute once, or more often.
/// Where its constructor refuses the value, an attribute is left out.
std::vector<OpPtr> neighbours(const OpRow& row);

/// An op with the attributes of the row's.
OpPtr copy_of_op(const OpRow& row);

/// Random inputs of a row, the same values whether f32 or f64, and rounded ones for f16 and bf16.
std::vector<Array> make_inputs(const OpRow& row, DType dtype);

/// Whether the row's floating type makes a difference between f32 and a type that it is computed in.
bool has_low_precision(const OpRow& row);

/// The same elements as another floating type, rounded to nearest even.
Array cast(const Array& array, DType dtype);

/// The op and its inputs' shapes, for messages.
std::string describe(const OpRow& row);

}  // namespace braid::testing
