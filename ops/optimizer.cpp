#include "ops/optimizer.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

/// Groups of `stride` inputs (parameter, gradient, moments …) after `scalars` scalars; all but the gradient get a next
/// version.
void infer_updates(std::string_view op, bool scaled, int scalar_count, int inputs_per_parameter,
                   std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) {
  const auto scalars = static_cast<std::size_t>(scalar_count), stride = static_cast<std::size_t>(inputs_per_parameter);
  BRAID_CHECK(inputs.size() > scalars && (inputs.size() - scalars) % stride == 0, ShapeError, "[", op, "] expected ",
              scalars, " scalars and ", stride, " inputs per parameter, got ", inputs.size(), " inputs");
  check_value(op, "a learning rate", inputs[0], {DType::f32, {}});
  if (scaled) check_value(op, "a gradient's factor", inputs[scalars - 1], {DType::f32, {}});
  for (std::size_t first = scalars; first < inputs.size(); first += stride) {
    const ValueDesc& parameter = inputs[first];
    check_floating(op, "a parameter", parameter);
    check_dtype(op, "a parameter", parameter, computed_in(parameter.dtype));
    for (std::size_t i = first; i < first + stride; ++i) {
      check_value(op, "a gradient or moment", inputs[i], parameter);
      if (i == first + 1) continue;
      outputs.push_back({.dtype = parameter.dtype, .shape = parameter.shape, .overwrites = static_cast<int>(i)});
    }
  }
}

}  // namespace

void SgdUpdate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_updates(name(), attributes_.scaled, scalars(), stride(), inputs, outputs);
}

void AdamUpdate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  if (inputs.size() > 1) check_value(name(), "a step number", inputs[1], {DType::i32, {}});
  infer_updates(name(), attributes_.scaled, scalars(), 4, inputs, outputs);
}

}  // namespace braid::ops
