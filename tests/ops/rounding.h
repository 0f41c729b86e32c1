#pragma once
// How far a result in floating point may lie from the exact one.

#include <algorithm>
#include <cmath>

#include "tests/ops/interpreter.h"
#include "tests/ops/op_table.h"

namespace braid::testing {

/// Half the distance of 1 to the next number.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

inline double largest(const Array& array) {
  double value = 0;
  for (const double x : doubles(array)) value = std::max(value, std::abs(x));
  return value;
}

/// The largest difference of elements of two arrays of the same shape; NaN if an element is.
inline double largest_difference(const Array& a, const Array& b) {
  const std::vector<double> as = doubles(a), bs = doubles(b);
  double value = 0;
  for (std::size_t i = 0; i < as.size(); ++i) {
    const double difference = as[i] == bs[i] ? 0 : std::abs(as[i] - bs[i]);  // infinities may be equal
    if (!(difference <= value)) value = difference;
  }
  return value;
}

/// The relative error that a sum may have. Its partial sums are rounded by up to `sum`, its inputs and its result by up
/// to `rounding`. Errors of a sum of L terms grow as √L; a fast algorithm may cost one digit more.
inline double sum_error(double terms, double sum, double rounding = 0) {
  return 2 * rounding + (2 + 8 * std::sqrt(terms)) * sum;
}

/// The longest chain of additions behind an element of the output, from above: the products of a convolution, all
/// elements of a channel, or everything.
inline double reduction_length(const OpRow& row, const std::vector<Array>& inputs, const Array& output) {
  const double elements = std::max(1.0, static_cast<double>(output.size()));
  double total = 1;
  std::vector<ValueDesc> descs;
  for (const Array& input : inputs) {
    total = std::max(total, static_cast<double>(input.size()));
    descs.push_back(desc_of(input));
  }
  const ValueDesc desc = desc_of(output);
  const double flops = row.op->work(descs, std::span(&desc, 1)).flops;
  return std::max(flops, total) / elements;
}

/// The outputs that plain loops in f64 have for the same inputs.
inline std::vector<Array> exact_outputs(const OpRow& row, const std::vector<Array>& inputs) {
  std::vector<Array> wide;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool fixed = row.inputs[i].data >= Data::rate || !is_floating(inputs[i].dtype());
    wide.push_back(fixed ? inputs[i] : cast(inputs[i], DType::f64));
  }
  return run_op(*row.op, wide, {.portable = true});
}

/// Whether a GPU leaves the op to a library.
inline bool runs_in_library(std::string_view op) {
  return op.starts_with("conv2d") || op.starts_with("linear") || op == "matmul";
}

}  // namespace braid::testing
