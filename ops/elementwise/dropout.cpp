#include "ops/elementwise/dropout.h"

#include "ops/common/check.h"

namespace braid::ops {

Dropout::Dropout(double p, std::uint64_t seed, std::uint32_t layer, std::int64_t axis, std::int64_t shards)
    : OpWith(p, seed, layer, axis, shards) {
  BRAID_CHECK(p >= 0 && p < 1, ShapeError, "[dropout] expected a probability in [0, 1), got ", p);
}

void Dropout::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, inputs.size() == 3 ? 3 : 2);
  check_floating(name(), "an input", inputs[0]);
  check_value(name(), "a step number", inputs[1], {DType::i32, {}});
  if (inputs.size() == 3) check_value(name(), "the number of a shard", inputs[2], {DType::i32, {}});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

void Dropout::gradient(GradientContext& context) const {
  std::vector<ValueId> inputs{context.output_gradient(0)};
  for (int i = 1; i < context.input_count(); ++i) inputs.push_back(context.input(i));
  const auto& [p, seed, layer, axis, shards] = attributes();
  context.set_input_gradient(0, context.record(std::make_shared<Dropout>(p, seed, layer, axis, shards), inputs));
}

std::optional<Divided> Dropout::divide(const Division& node) const {
  std::optional<Divided> result = Op::divide(node);
  if (!result.has_value()) return std::nullopt;
  const auto& [p, seed, layer, axis, shards] = attributes();
  const std::int64_t along = result->inputs.front().axis;
  if (node.inputs.size() == 3 && along != axis) return std::nullopt;
  result->op = std::make_shared<Dropout>(p, seed, layer, along, shards * node.shards);
  result->number = 2;
  return result;
}

DropoutRuns Dropout::runs(const Shape& x, std::int64_t number) const {
  return {x.size_between(static_cast<int>(attributes_.axis), x.rank()), attributes_.shards, number};
}

}  // namespace braid::ops
