#include "ops/optimizer/optimizer.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

/// Groups of `stride` inputs (parameter, gradient, moments, copy) after `scalars` scalars; all but the gradient get a
/// next version.
template <class Op>
void infer_updates(const Op& update, std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) {
  const std::string_view op = update.name();
  const std::size_t scalars = update.scalars(), stride = update.stride();
  const bool rounded = update.attributes().rounded;
  BRAID_CHECK(inputs.size() > scalars && (inputs.size() - scalars) % stride == 0, ShapeError, "[", op, "] expected ",
              scalars, " scalars and ", stride, " inputs per parameter, got ", inputs.size(), " inputs");
  check_value(op, "a learning rate", inputs[0], {DType::f64, {}});
  if (update.attributes().scaled) check_value(op, "a gradient's factor", inputs[scalars - 1], {DType::f64, {}});
  for (std::size_t first = scalars; first < inputs.size(); first += stride) {
    const ValueDesc& parameter = inputs[first];
    check_floating(op, "a parameter", parameter);
    check_dtype(op, "a parameter", parameter, computed_in(parameter.dtype));
    const ValueDesc copy{inputs[first + 1].dtype, parameter.shape};
    if (rounded) check_dtype(op, "a parameter", parameter, computed_in(copy.dtype));
    for (std::size_t i = first; i < first + stride; ++i) {
      const bool is_gradient = i == first + 1, is_copy = rounded && i + 1 == first + stride;
      const ValueDesc& expected = rounded && (is_gradient || is_copy) ? copy : parameter;
      check_value(op, is_copy ? "a copy" : "a gradient or moment", inputs[i], expected);
      if (is_gradient) continue;
      outputs.push_back({.dtype = expected.dtype, .shape = expected.shape, .overwrites = static_cast<int>(i)});
    }
  }
}

}  // namespace

void SgdUpdate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_updates(*this, inputs, outputs);
}

void AdamUpdate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  if (inputs.size() > 1) check_value(name(), "a step number", inputs[1], {DType::i32, {}});
  infer_updates(*this, inputs, outputs);
}

}  // namespace braid::ops
