#include "models/layers/layers.h"

#include "core/device/backend.h"
#include "core/device/parallel.h"
#include "ops/elementwise/cpu/normal.h"

namespace braid {

namespace {

/// Draws every element, with the threads of the session: element i takes draw i of the tensor's generator.
/// draw(generator, first, elements) sets those from place `first` on.
template <class Draw>
void draw_all(Context& context, Parameter& tensor, const Draw& draw) {
  if (!context.draws_weights()) return;
  constexpr std::int64_t kGrain = 16384;  // a multiple of 4, as draw_normal() requires
  Array values(DType::f32, tensor.shape());
  parallel_for(
      context.backend().info().capacity, tensor.shape().size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        draw(context.generator(tensor.name()), static_cast<std::uint64_t>(begin),
             values.as<float>().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      });
  context.write(tensor, values);
}

/// Uniform in ±bound.
void uniform(Context& context, Parameter& tensor, float bound) {
  draw_all(context, tensor, [&](Generator generator, std::uint64_t first, std::span<float> elements) {
    generator.seek(first);
    for (float& element : elements) element = bound * (2 * generator.uniform() - 1);
  });
}

/// Channels of a group. Throws ShapeError unless the groups divide both numbers of channels.
std::int64_t grouped(std::string_view layer, std::int64_t channels, std::int64_t others, std::int64_t groups) {
  BRAID_CHECK(groups >= 1 && channels % groups == 0 && others % groups == 0, ShapeError, "[", layer,
              "] expected groups that divide ", channels, " and ", others, " channels, got ", groups);
  return channels / groups;
}

}  // namespace

void normal(Context& context, Parameter& weight, float deviation, float mean) {
  draw_all(context, weight, [&](const Generator& generator, std::uint64_t first, std::span<float> elements) {
    cpu::draw_normal(generator, first, elements);
    for (float& element : elements) element = mean + deviation * element;
  });
}

void he_normal(Context& context, Parameter& weight, std::int64_t fan) {
  normal(context, weight, std::sqrt(2.0f / static_cast<float>(fan)));
}

void uniform_by_fan(Context& context, Parameter& tensor, std::int64_t fan) {
  uniform(context, tensor, 1.0f / std::sqrt(static_cast<float>(fan)));
}

void fill(Context& context, Parameter& tensor, float value) {
  draw_all(context, tensor,
           [&](const Generator&, std::uint64_t, std::span<float> elements) { std::ranges::fill(elements, value); });
}

WeightedLayer::WeightedLayer(Context& context, const Shape& weight, std::int64_t out, Bias bias, Init init,
                             std::int64_t groups)
    : Module(context), weight_(add_tensor("weight", weight)), init_(init), groups_(groups) {
  if (bias == Bias::yes) {
    bias_ = &add_tensor("bias", {out});
    bias_->weight_decay = false;
  }
  initialise();
}

void WeightedLayer::initialise() {
  const Shape& shape = weight_.shape();
  const std::int64_t area = shape.rank() == 4 ? shape[1] * shape[2] : 1;
  const std::int64_t fan_in = area * shape[-1], fan_out = area * shape[0] / groups_;
  if (bias_ != nullptr) fill(context(), *bias_, 0);
  switch (init_) {
    case Init::he_fan_out: he_normal(context(), weight_, fan_out); break;
    case Init::he_fan_in: he_normal(context(), weight_, fan_in); break;
    case Init::he_uniform: uniform(context(), weight_, std::sqrt(6.0f / static_cast<float>(fan_in))); break;
    case Init::uniform_fan_out: uniform_by_fan(context(), weight_, fan_out); break;
    case Init::normal: normal(context(), weight_, 0.01f); break;
    case Init::uniform:
      uniform_by_fan(context(), weight_, fan_in);
      if (bias_ != nullptr) uniform_by_fan(context(), *bias_, fan_in);
      break;
  }
}

ConvLayer::ConvLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel, const Conv2dOptions& options,
                     Bias bias, Init init)
    : WeightedLayer(context, {out, kernel.h, kernel.w, grouped("conv", in, out, options.groups)}, out, bias, init,
                    options.groups),
      options_(options) {}

Tensor ConvLayer::forward(const Tensor& x) {
  const Tensor w = cast(weight_, x.dtype());
  return bias_ == nullptr ? conv2d(x, w, options_) : conv2d(x, w, cast(*bias_, x.dtype()), options_);
}

ConvTransposeLayer::ConvTransposeLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel,
                                       const ConvTranspose2dOptions& options, Bias bias, Init init)
    : WeightedLayer(context, {in, kernel.h, kernel.w, grouped("conv_transpose", out, in, options.groups)}, out, bias,
                    init),
      options_(options) {}

Tensor ConvTransposeLayer::forward(const Tensor& x) {
  const Tensor w = cast(weight_, x.dtype());
  return bias_ == nullptr ? conv_transpose2d(x, w, options_)
                          : conv_transpose2d(x, w, cast(*bias_, x.dtype()), options_);
}

NormLayer::NormLayer(Context& context, const Shape& extents)
    : Module(context), scale_(add_tensor("weight", extents)), shift_(add_tensor("bias", extents)) {
  scale_.weight_decay = shift_.weight_decay = false;
}

void NormLayer::initialise() {
  fill(context(), scale_, 1);
  fill(context(), shift_, 0);
}

BatchNormLayer::BatchNormLayer(Context& context, std::int64_t channels, Activation activation, double epsilon,
                               double momentum)
    : NormLayer(context, {channels}),
      options_{.epsilon = epsilon, .momentum = momentum, .activation = activation},
      running_mean_(add_tensor("running_mean", {channels}, ValueKind::state)),
      running_variance_(add_tensor("running_var", {channels}, ValueKind::state)) {
  initialise();
}

void BatchNormLayer::initialise() {
  NormLayer::initialise();
  fill(context(), running_mean_, 0);
  fill(context(), running_variance_, 1);
}

Tensor BatchNormLayer::operator()(const Tensor& x, const Tensor& residual) {
  const Tape::Layer layer(x.tape(), name());
  return normalise(x, residual);
}

Tensor BatchNormLayer::normalise(const Tensor& x, const Tensor& residual) {
  BatchNormOptions options = options_;
  options.add = residual.defined();
  const bool batch_statistics = training() && !keeps_statistics_;
  return batch_norm(x, {scale_, shift_, running_mean_, running_variance_}, options, batch_statistics, residual);
}

void keep_frozen_statistics(Module& model) {
  for (Module* module : model.modules()) {
    auto* norm = dynamic_cast<BatchNormLayer*>(module);
    if (norm != nullptr && !norm->trains_scale()) norm->keep_statistics();
  }
}

ConvNormLayer::ConvNormLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel,
                             const Conv2dOptions& conv, const NormOptions& norm)
    : Chain(context) {
  then<ConvLayer>(norm.conv_name, in, out, kernel, conv);
  then<BatchNormLayer>(norm.norm_name, out, norm.activation, norm.epsilon);
}

Tensor Chain::forward_from(std::size_t first, std::size_t last, const Tensor& x) const {
  Tensor y = x;
  for (std::size_t i = first; i < last; ++i) y = steps_[i](y);
  return y;
}

}  // namespace braid
