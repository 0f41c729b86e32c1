#include "models/layers.h"

namespace braid {

namespace {

template <class Draw>
void initialise(Context& context, Parameter& tensor, const Draw& draw) {
  Array values(DType::f32, tensor.shape());
  Generator generator = context.generator(tensor.name());
  for (float& value : values.as<float>()) value = draw(generator);
  context.write(tensor, values);
}

}  // namespace

void he_normal(Context& context, Parameter& weight, std::int64_t fan_out) {
  const float deviation = std::sqrt(2.0f / static_cast<float>(fan_out));
  initialise(context, weight, [&](Generator& generator) { return deviation * generator.normal(); });
}

void uniform_fan_in(Context& context, Parameter& tensor, std::int64_t fan_in) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(fan_in));
  initialise(context, tensor, [&](Generator& generator) { return bound * (2 * generator.uniform() - 1); });
}

void fill(Context& context, Parameter& tensor, float value) {
  initialise(context, tensor, [&](Generator&) { return value; });
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
  initialise();
}

void ConvLayer::initialise() {
  const Shape& shape = weight_.shape();
  he_normal(context(), weight_, shape[0] * shape[1] * shape[2] / options_.groups);
  if (bias_ != nullptr) fill(context(), *bias_, 0);
}

Tensor ConvLayer::forward(const Tensor& x) {
  return bias_ == nullptr ? conv2d(x, weight_, options_) : conv2d(x, weight_, *bias_, options_);
}

BatchNormLayer::BatchNormLayer(Context& context, std::int64_t channels, Activation activation, double epsilon,
                               double momentum)
    : Module(context),
      options_{.epsilon = epsilon, .momentum = momentum, .activation = activation},
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
  BatchNormOptions options = options_;
  options.add = residual.defined();
  const bool batch_statistics = training() && scale_.trainable;
  return batch_norm(x, {scale_, shift_, running_mean_, running_variance_}, options, batch_statistics, residual);
}

LinearLayer::LinearLayer(Context& context, std::int64_t in, std::int64_t out)
    : Module(context), weight_(add_tensor("weight", {out, in})), bias_(add_tensor("bias", {out})) {
  bias_.weight_decay = false;
  initialise();
}

void LinearLayer::initialise() {
  const std::int64_t in = weight_.shape()[1];
  uniform_fan_in(context(), weight_, in);
  uniform_fan_in(context(), bias_, in);
}

Tensor LinearLayer::forward(const Tensor& x) { return linear(x, weight_, bias_); }

}  // namespace braid
