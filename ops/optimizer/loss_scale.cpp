#include "ops/optimizer/loss_scale.h"

#include "ops/common/check.h"

namespace braid::ops {

LossScaleUpdate::LossScaleUpdate(const LossScaleOptions& options) : OpWith(options) {
  BRAID_CHECK(
      options.growth >= 1 && options.backoff > 0 && options.backoff < 1 && options.growth_interval >= 1, Error,
      "[loss_scale_update] expected a growth of at least 1, a backoff in (0, 1) and an interval of at least 1, got ",
      options.growth, ", ", options.backoff, " and ", options.growth_interval);
}

void LossScaleUpdate::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  constexpr std::pair<std::string_view, DType> kState[kStates] = {
      {"a scale", DType::f32}, {"a count of good steps", DType::i32}, {"a count of updates", DType::i32}};
  BRAID_CHECK(inputs.size() > kStates, ShapeError, "[", name(), "] expected ", kStates,
              " states and at least one gradient, got ", inputs.size(), " inputs");
  for (std::size_t i = 0; i < kStates; ++i) {
    const auto& [what, dtype] = kState[i];
    check_value(name(), what, inputs[i], {dtype, {}});
    outputs.push_back({.dtype = dtype, .shape = {}, .overwrites = static_cast<int>(i)});
  }
  for (const ValueDesc& gradient : inputs.subspan(kStates)) {
    check_floating(name(), "a gradient", gradient);
  }
  outputs.push_back({.dtype = DType::f64, .shape = {}});
}

}  // namespace braid::ops
