#include "ops/elementwise/dropout.h"

#include "ops/common/check.h"
#include "ops/common/divide.h"

namespace braid::ops {

Dropout::Dropout(double p, std::uint64_t seed, std::uint32_t layer) : OpWith(p, seed, layer) {
  BRAID_CHECK(p >= 0 && p < 1, ShapeError, "[dropout] expected a probability in [0, 1), got ", p);
}

void Dropout::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 2);
  check_floating(name(), "an input", inputs[0]);
  check_value(name(), "a step number", inputs[1], {DType::i32, {}});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

void Dropout::gradient(GradientContext& context) const {
  context.set_input_gradient(
      0, context.record(std::make_shared<Dropout>(attributes_.p, attributes_.seed, attributes_.layer),
                        {context.output_gradient(0), context.input(1)}));
}

std::optional<Divided> Dropout::divide(const Division& node) const {
  std::optional<Divided> result =
      divided(node, {Layout::split, Layout::replicated}, {Layout::split}, std::make_shared<ShardDropout>(attributes()));
  if (result.has_value()) result->takes_number = true;
  return result;
}

void ShardDropout::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  const auto& [p, seed, layer] = attributes();
  Dropout(p, seed, layer).infer(inputs.first(2), outputs);
  check_value(name(), "the number of the shard", inputs[2], {DType::i32, {}});
}

}  // namespace braid::ops
