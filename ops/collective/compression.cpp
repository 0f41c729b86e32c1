#include "ops/collective/compression.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

/// Reading, comparing and writing an element, about; from above, where few elements are sent.
constexpr double kFlopsPerElement = 8;

}  // namespace

Shape with_rows(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> extents{rows};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return Shape(extents);
}

void ToShards::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  outputs.push_back({.dtype = inputs[0].dtype,
                     .shape = with_rows(attributes_.shards, inputs[0].shape),
                     .views = attributes_.shards == 1 ? 0 : -1});
}

std::optional<Divided> ToShards::divide(const Division& node) const {
  const bool as_it_lies = node.layouts[0] == Layout::partial_sum;
  return Divided{.inputs = {as_it_lies ? Layout::partial_sum : Layout::replicated},
                 .outputs = {Layout::split},
                 .op = std::make_shared<ToShards>(1),
                 .factors = {as_it_lies ? 1 : 1.0 / node.shards}};
}

void Compress::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 3);
  const auto& [dtype, shape] = inputs[1];
  check_value(name(), "the number of a step", inputs[0], {DType::i32, {}});
  BRAID_CHECK(shape.rank() > 0 && computed_in(dtype) == dtype, ShapeError,
              "[compress] expected gradients [shards,...] of f32 or f64, got ", dtype, ' ', shape);
  check_value(name(), "residuals", inputs[2], inputs[1]);
  BRAID_CHECK(attributes_.ratio > 0 && attributes_.ratio <= 1, ShapeError,
              "[compress] expected a ratio in (0, 1], got ", attributes_.ratio);
  const MessageFormat format(attributes_.method, attributes_.ratio, shape.size_between(1, shape.rank()), dtype);
  outputs.push_back({.dtype = DType::u8, .shape = {shape[0], format.bytes()}});
  outputs.push_back({.dtype = dtype, .shape = shape, .overwrites = 2});
}

Work Compress::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return Op::work(inputs, outputs).with_flops(kFlopsPerElement * static_cast<double>(inputs[1].shape.size()));
}

void Decompress::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  const auto& [method, ratio, dtype, shape] = attributes_;
  const MessageFormat format(method, ratio, shape.size(), dtype);
  BRAID_CHECK(inputs[0].shape.rank() == 2 && inputs[0].shape[1] == format.bytes() && inputs[0].dtype == DType::u8,
              ShapeError, "[decompress] expected messages u8 [shards,", format.bytes(), "], got ", inputs[0].dtype, ' ',
              inputs[0].shape);
  outputs.push_back({.dtype = dtype, .shape = shape});
}

Work Decompress::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  const double elements = static_cast<double>(outputs[0].shape.size() * inputs[0].shape[0]);
  return Op::work(inputs, outputs).with_flops(kFlopsPerElement * elements);
}

}  // namespace braid::ops
