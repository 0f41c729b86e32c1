#include "ops/norm/batch_norm.h"

#include <array>
#include <numeric>

#include "ops/common/check.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/matmul/linear.h"
#include "ops/norm/normalization_gradient.h"

namespace braid::ops {

namespace {

bool activates(const BatchNormOptions& options) { return options.activation != Activation::none; }

/// `statistics` are the names of inputs 3 and 4.
void check_batch_norm(std::string_view op, const BatchNormOptions& options, std::span<const ValueDesc> inputs,
                      const std::array<std::string_view, 2>& statistics = {"a running mean", "a running variance"}) {
  check_inputs(op, inputs, options.add ? 6 : 5);
  const ValueDesc& x = inputs[0];
  check_floating(op, "an input", x);
  BRAID_CHECK(x.shape.rank() >= 2, ShapeError, "[", op, "] expected an input of shape [N,...,C], got ", x.shape);
  const ValueDesc per_channel{computed_in(x.dtype), {x.shape[-1]}};
  const std::string_view names[] = {"", "a scale", "a shift", statistics[0], statistics[1]};
  for (std::size_t i = 1; i < 5; ++i) check_value(op, names[i], inputs[i], per_channel);
  if (options.add) check_value(op, "a residual", inputs[5], x);
}

}  // namespace

void BatchNorm::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_batch_norm(name(), attributes_, inputs);
  const ValueDesc& x = inputs[0];
  const std::int64_t channels = inputs[1].shape[0];
  const DType statistics = computed_in(x.dtype);
  BRAID_CHECK(channels == 0 || x.shape.size() / channels > 1, ShapeError,
              "[batch_norm] expected more than one element per channel in training, got an input of shape ", x.shape);
  // y may take the residual's place, never x's: the backward pass needs x.
  outputs.push_back({.dtype = x.dtype, .shape = x.shape, .reuses = attributes_.add ? 5 : -1});
  outputs.insert(outputs.end(), 2, {.dtype = statistics, .shape = {channels}});
  outputs.push_back({.dtype = statistics, .shape = {channels}, .overwrites = 3});
  outputs.push_back({.dtype = statistics, .shape = {channels}, .overwrites = 4});
}

Work BatchNorm::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  Work work = Op::work(inputs, outputs);
  const double x = static_cast<double>(inputs[0].shape.size());
  work.bytes += x * static_cast<double>(size_of(inputs[0].dtype));  // x is read twice: statistics, then normalisation
  work.flops = 6 * x;
  return work;
}

void BatchNorm::gradient(GradientContext& context) const {
  const ValueId dy = context.output_gradient(0);
  std::vector<ValueId> inputs{dy, context.input(0), context.input(1), context.output(1), context.output(2)};
  if (activates(attributes_)) inputs.push_back(attributes_.add ? context.output(0) : context.input(2));
  const ValueId dx = context.record(std::make_shared<BatchNormBackward>(attributes()), inputs);
  for (int i = 0; i < 3; ++i) context.set_input_gradient(i, dx + i);
  if (attributes_.add) context.set_input_gradient(5, activates(attributes_) ? dx + 3 : dy);
}

/// Uses the batch's statistics of the first computation. The running ones, which have been updated since, stay as they
/// are.
std::optional<Recomputation> BatchNorm::recompute() const {
  return Recomputation{
      .op = std::make_shared<BatchNormApply>(attributes()), .inputs_from_outputs = {{3, 1}, {4, 2}}, .outputs = 1};
}

void BatchNormInference::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_batch_norm(name(), attributes_, inputs);
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = 0});
}

void BatchNormInference::gradient(GradientContext& context) const {
  const ValueId dy = before_activation(context, attributes_.activation, context.output_gradient(0), context.output(0));
  if (attributes_.add) context.set_input_gradient(5, dy);
  const ValueId scale = context.input(1), mean = context.input(3), variance = context.input(4);
  const auto filled = [&](double value) {
    return context.record(std::make_shared<Fill>(context.desc(scale), value), {});
  };
  BatchNormOptions linear;
  linear.epsilon = attributes_.epsilon;
  const auto map = std::make_shared<BatchNormInference>(linear);
  const auto channel_sum = [&](ValueId value) {
    return cast(context, context.record(std::make_shared<ChannelSum>(), {value}), context.desc(scale).dtype);
  };
  if (context.needs(1)) {
    const ValueId normalised = context.record(map, {context.input(0), filled(1), filled(0), mean, variance});
    context.set_input_gradient(1, channel_sum(context.record(elementwise(Function::mul), {dy, normalised})));
  }
  if (context.needs(2)) context.set_input_gradient(2, channel_sum(dy));
  if (!context.needs(0)) return;
  // y is linear in x, so dx is the same map applied to dy, without its constant part.
  const ValueId zero = filled(0);
  context.set_input_gradient(0, context.record(map, {dy, scale, zero, zero, variance}));
}

void BatchNormStatistics::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, 3);
  const ValueDesc& x = inputs[0];
  check_floating(name(), "an input", x);
  BRAID_CHECK(x.shape.rank() >= 2, ShapeError, "[", name(), "] expected an input of shape [N,...,C], got ", x.shape);
  const ValueDesc per_channel{computed_in(x.dtype), {x.shape[-1]}};
  check_value(name(), "a running mean", inputs[1], per_channel);
  check_value(name(), "a running variance", inputs[2], per_channel);
  outputs.insert(outputs.end(), 2, {.dtype = per_channel.dtype, .shape = per_channel.shape});
  for (const int state : {1, 2}) {
    outputs.push_back({.dtype = per_channel.dtype, .shape = per_channel.shape, .overwrites = state});
  }
}

Work BatchNormStatistics::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return Op::work(inputs, outputs).with_flops(3 * static_cast<double>(inputs[0].shape.size()));
}

void BatchNormApply::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_batch_norm(name(), attributes_, inputs, {"a batch mean", "a deviation"});
  outputs.push_back({.dtype = inputs[0].dtype, .shape = inputs[0].shape, .reuses = attributes_.add ? 5 : -1});
}

void BatchNormBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  check_inputs(name(), inputs, activates(attributes_) ? 6 : 5);
  const ValueDesc& dy = inputs[0];
  const ValueDesc per_channel{computed_in(dy.dtype), {dy.shape[-1]}};
  check_value(name(), "an input", inputs[1], dy);
  for (std::size_t i = 2; i < 5; ++i) check_value(name(), "a scale, mean or deviation", inputs[i], per_channel);
  if (activates(attributes_) && attributes_.add) check_value(name(), "an output", inputs[5], dy);
  if (activates(attributes_) && !attributes_.add) check_value(name(), "a shift", inputs[5], per_channel);
  outputs.push_back({.dtype = dy.dtype, .shape = dy.shape, .reuses = 1});
  outputs.insert(outputs.end(), 2, {.dtype = per_channel.dtype, .shape = per_channel.shape});
  if (attributes_.add && activates(attributes_)) outputs.push_back({.dtype = dy.dtype, .shape = dy.shape, .reuses = 0});
}

Work BatchNormBackward::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  Work work = Op::work(inputs, outputs);
  const double x = static_cast<double>(inputs[0].shape.size());
  const double reread = activates(attributes_) && attributes_.add ? 3 : 2;  // dy, x and y are read twice: sums, then dx
  work.bytes += reread * x * static_cast<double>(size_of(inputs[0].dtype));
  work.flops = 8 * x;
  return work;
}

void BatchNormBackward::gradient(GradientContext& context) const {
  const ValueId dy = context.input(0), x = context.input(1), scale = context.input(2), mean = context.input(3),
                inverse_deviation = context.input(4);
  const bool has_activation = activates(attributes_);
  ValueId y = has_activation && attributes_.add ? context.input(5) : kNoValue;
  if (has_activation && !attributes_.add) {
    const BatchNormOptions plain{.epsilon = attributes_.epsilon, .activation = attributes_.activation};
    y = context.record(std::make_shared<BatchNormApply>(plain), {x, scale, context.input(5), mean, inverse_deviation});
  }
  const auto passed = [&](ValueId value) { return before_activation(context, attributes_.activation, value, y); };
  std::vector<std::int64_t> axes(static_cast<std::size_t>(context.desc(x).shape.rank() - 1));
  std::iota(axes.begin(), axes.end(), 0);
  const NormalizationSecond second = differentiate(context, {.dy = passed(dy),
                                                             .x = x,
                                                             .scale = scale,
                                                             .mean = mean,
                                                             .inverse_deviation = inverse_deviation,
                                                             .group_axes = Shape(axes),
                                                             .scale_axes = Shape(axes),
                                                             .of_dx = context.output_gradient(0),
                                                             .of_scale = context.output_gradient(1),
                                                             .of_shift = context.output_gradient(2)});
  ValueId of_dy = second.dy;
  const bool has_residual = has_activation && attributes_.add;
  if (const ValueId of_residual = has_residual ? context.output_gradient(3) : kNoValue; of_residual != kNoValue) {
    of_dy = of_dy == kNoValue ? of_residual : context.record(std::make_shared<Sum>(), {of_dy, of_residual});
  }
  if (context.needs(0) && of_dy != kNoValue) context.set_input_gradient(0, passed(of_dy));
  context.set_input_gradient(1, second.x);
  context.set_input_gradient(2, second.scale);
}

/// Every shard normalises with the statistics of its samples, as a process of PyTorch's DistributedDataParallel does.
/// The running statistics become the mean over all shards.
OpAxes BatchNorm::axes(const NodeValues&) const { return {"n...c,c,c,c,c,n...c->n...c,~c"}; }
OpPtr BatchNorm::for_part(const Shape&, char) const { return std::make_shared<ShardBatchNorm>(attributes()); }

void ShardBatchNorm::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BatchNorm(attributes()).infer(inputs, outputs);
  for (OutputDesc& output : outputs) output.overwrites = -1;
}

Work ShardBatchNorm::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return BatchNorm(attributes()).work(inputs, outputs);
}

std::optional<Recomputation> ShardBatchNorm::recompute() const { return BatchNorm(attributes()).recompute(); }

OpAxes BatchNormInference::axes(const NodeValues&) const { return {"*c,c,c,c,c,*c->*c"}; }

/// The last input is y or β.
OpAxes BatchNormBackward::axes(const NodeValues&) const {
  return {std::string("n...c,n...c,c,?c,?c,") + (attributes_.add ? "n...c" : "c") + "->n...c,c,c,n...c"};
}

/// Along the samples if, and only if, the statistics are those of each shard's samples.
std::optional<Divided> BatchNormBackward::divide(const Division& node) const {
  std::vector<Layout> layouts(node.layouts.begin(), node.layouts.end());
  const bool by_samples = is_partial(layouts[3]);
  if (by_samples) layouts[0] = Layout::split;
  std::optional<Divided> result = Op::divide({node, layouts, node.shards});
  if (result.has_value() && !by_samples && result->inputs[0] == Layout::split) return std::nullopt;
  return result;
}

}  // namespace braid::ops
