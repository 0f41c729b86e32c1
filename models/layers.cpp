#include "models/layers.h"

#include <algorithm>

namespace braid {

namespace {

template <class Next>
void initialise(Context& context, Parameter& tensor, std::uint64_t draw, const Next& next) {
  Array values(DType::f32, tensor.shape());
  Generator generator = context.generator(tensor.name(), draw);
  for (float& value : values.as<float>()) value = next(generator);
  context.write(tensor, values);
}

}  // namespace

void he_normal(Context& context, Parameter& weight, std::int64_t fan_out, std::uint64_t draw) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(fan_out));
  initialise(context, weight, draw, [&](Generator& generator) { return deviation * generator.normal(); });
}

void uniform_fan_in(Context& context, Parameter& tensor, std::int64_t fan_in, std::uint64_t draw) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(fan_in));
  initialise(context, tensor, draw, [&](Generator& generator) { return bound * (2 * generator.uniform() - 1); });
}

void fill(Context& context, Parameter& tensor, float value) {
  Array values(DType::f32, tensor.shape());
  std::ranges::fill(values.as<float>(), value);
  context.write(tensor, values);
}

ConvLayer::ConvLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel, const Conv2dOptions& options,
                     Bias bias)
    : Module(context),
      options_(options),
      weight_(add_tensor("weight", {out, kernel.h, kernel.w, in / options.groups})) {
  if (bias == Bias::yes) {
    bias_ = &add_tensor("bias", {out});
    bias_->weight_decay = false;
  }
  initialise(0);
}

void ConvLayer::initialise(std::uint64_t draw) {
  const Shape& shape = weight_.shape();
  he_normal(context(), weight_, shape[0] * shape[1] * shape[2] / options_.groups, draw);
  if (bias_ != nullptr) fill(context(), *bias_, 0);
}

Tensor ConvLayer::forward(const Tensor& x) {
  return bias_ == nullptr ? conv2d(x, weight_, options_) : conv2d(x, weight_, *bias_, options_);
}

BatchNormLayer::BatchNormLayer(Context& context, std::int64_t channels, Activation activation)
    : Module(context),
      activation_(activation),
      scale_(add_tensor("weight", {channels})),
      shift_(add_tensor("bias", {channels})),
      running_mean_(add_tensor("running_mean", {channels}, ValueKind::state)),
      running_variance_(add_tensor("running_var", {channels}, ValueKind::state)) {
  scale_.weight_decay = shift_.weight_decay = false;
  initialise();
}

void BatchNormLayer::initialise() {
  fill(context(), scale_, 1);
  fill(context(), shift_, 0);
  fill(context(), running_mean_, 0);
  fill(context(), running_variance_, 1);
}

Tensor BatchNormLayer::operator()(const Tensor& x, const Tensor& residual) {
  const Tape::Layer layer(x.tape(), name());
  return normalise(x, residual);
}

Tensor BatchNormLayer::normalise(const Tensor& x, const Tensor& residual) {
  const BatchNormOptions options{.relu = activation_ == Activation::relu, .add = residual.defined()};
  const bool batch_statistics = training() && scale_.trainable;
  return batch_norm(x, {scale_, shift_, running_mean_, running_variance_}, options, batch_statistics, residual);
}

LinearLayer::LinearLayer(Context& context, std::int64_t in, std::int64_t out)
    : Module(context), weight_(add_tensor("weight", {out, in})), bias_(add_tensor("bias", {out})) {
  bias_.weight_decay = false;
  initialise(0);
}

void LinearLayer::initialise(std::uint64_t draw) {
  const std::int64_t in = weight_.shape()[1];
  uniform_fan_in(context(), weight_, in, draw);
  uniform_fan_in(context(), bias_, in, draw);
}

Tensor LinearLayer::forward(const Tensor& x) { return linear(x, weight_, bias_); }

}  // namespace braid
