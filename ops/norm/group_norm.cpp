#include "ops/norm/group_norm.h"

#include "ops/common/check.h"
#include "ops/layout/reshape.h"
#include "ops/norm/normalization_gradient.h"

namespace braid::ops {

void GroupNorm::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 3);
  check_rank(name(), "an input", inputs[0], 3, "[N,S,C]");
  check_floating(name(), "an input", inputs[0]);
  const auto& [dtype, x] = inputs[0];
  const auto& [groups, epsilon] = attributes();
  BRAID_CHECK(groups >= 1 && x[2] % groups == 0 && x[1] * x[2] > 0, ShapeError, "[", name(), "] expected ", x[2],
              " channels of at least one element in groups of equal size, got ", groups, " groups (input is ", x, ")");
  BRAID_CHECK(epsilon >= 0, ShapeError, "[", name(), "] expected an epsilon of at least 0, got ", epsilon);
  check_value(name(), "a scale", inputs[1], {computed_in(dtype), {x[2]}});
  check_value(name(), "a shift", inputs[2], {computed_in(dtype), {x[2]}});
  outputs.push_back({.dtype = dtype, .shape = x});
  outputs.insert(outputs.end(), 2, {.dtype = computed_in(dtype), .shape = {x[0], groups}});
}

void GroupNorm::gradient(GradientContext& context) const {
  const ValueId dx = context.record(
      std::make_shared<GroupNormBackward>(),
      {context.output_gradient(0), context.input(0), context.input(1), context.output(1), context.output(2)});
  for (int i = 0; i < 3; ++i) context.set_input_gradient(i, dx + i);
}

void GroupNormBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 5);
  check_rank(name(), "an output gradient", inputs[0], 3, "[N,S,C]");
  check_floating(name(), "an output gradient", inputs[0]);
  const auto& [dtype, x] = inputs[0];
  const ValueDesc channels{computed_in(dtype), {x[2]}};
  check_value(name(), "an input", inputs[1], inputs[0]);
  check_value(name(), "a scale", inputs[2], channels);
  check_rank(name(), "means", inputs[3], 2, "[N,G]");
  const std::int64_t groups = inputs[3].shape[1];
  BRAID_CHECK(groups >= 1 && x[2] % groups == 0, ShapeError, "[", name(), "] expected ", x[2],
              " channels in groups of equal size, got ", groups, " groups");
  check_value(name(), "means", inputs[3], {channels.dtype, {x[0], groups}});
  check_value(name(), "inverse deviations", inputs[4], inputs[3]);
  outputs.push_back({.dtype = dtype, .shape = x});
  outputs.insert(outputs.end(), 2, {.dtype = channels.dtype, .shape = channels.shape});
}

/// Views the tensors as [N,S,G,C/G], so that each group has its own axes.
void GroupNormBackward::gradient(GradientContext& context) const {
  const Shape x = context.desc(context.input(1)).shape, statistics = context.desc(context.input(3)).shape;
  const std::int64_t groups = statistics[1], channels = groups == 0 ? 0 : x[2] / groups;
  const Shape split{x[0], x[1], groups, channels}, per_group{x[0], 1, groups, 1}, per_channel{groups, channels};
  const auto view = [&](ValueId value, const Shape& shape) {
    return value == kNoValue ? value : context.record(std::make_shared<Reshape>(shape), {value});
  };
  const NormalizationSecond second =
      differentiate(context, {.dy = view(context.input(0), split),
                              .x = view(context.input(1), split),
                              .scale = view(context.input(2), per_channel),
                              .mean = view(context.input(3), per_group),
                              .inverse_deviation = view(context.input(4), per_group),
                              .group_axes = {1, 3},
                              .scale_axes = {0, 1},
                              .of_dx = view(context.output_gradient(0), split),
                              .of_scale = view(context.output_gradient(1), per_channel),
                              .of_shift = view(context.output_gradient(2), per_channel)});
  const ValueId gradients[] = {view(second.dy, x), view(second.x, x), view(second.scale, {x[2]})};
  for (int i = 0; i < 3; ++i) context.set_input_gradient(i, gradients[i]);
}

}  // namespace braid::ops
