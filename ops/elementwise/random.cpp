#include "ops/elementwise/random.h"

#include "ops/common/check.h"

namespace braid::ops {

void Random::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 1);
  check_value(name(), "a step number", inputs[0], {DType::i32, {}});
  check_floating(name(), "an output", attributes_.output);
  outputs.push_back({.dtype = attributes_.output.dtype, .shape = attributes_.output.shape});
}

}  // namespace braid::ops
