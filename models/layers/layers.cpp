#include "models/layers/layers.h"

namespace braid {

namespace {

template <class Draw>
void draw_all(Context& context, Parameter& tensor, const Draw& draw) {
  if (!context.draws_weights()) return;
  Array values(DType::f32, tensor.shape());
  Generator generator = context.generator(tensor.name());
  for (float& value : values.as<float>()) value = draw(generator);
  context.write(tensor, values);
}

/// Uniform in ±bound.
void uniform(Context& context, Parameter& tensor, float bound) {
  draw_all(context, tensor, [&](Generator& generator) { return bound * (2 * generator.uniform() - 1); });
}

/// Channels of a group. Throws ShapeError unless the groups divide both numbers of channels.
std::int64_t grouped(std::string_view layer, std::int64_t channels, std::int64_t others, std::int64_t groups) {
  BRAID_CHECK(groups >= 1 && channels % groups == 0 && others % groups == 0, ShapeError, "[", layer,
              "] expected groups that divide ", channels, " and ", others, " channels, got ", groups);
  return channels / groups;
}

void draw_weights(Context& context, Init init, std::int64_t fan_in, std::int64_t fan_out, Parameter& weight,
                  Parameter* bias) {
  if (bias != nullptr) fill(context, *bias, 0);
  switch (init) {
    case Init::he_fan_out: he_normal(context, weight, fan_out); break;
    case Init::he_fan_in: he_normal(context, weight, fan_in); break;
    case Init::he_uniform: uniform(context, weight, std::sqrt(6.0f / static_cast<float>(fan_in))); break;
    case Init::uniform_fan_out: uniform_by_fan(context, weight, fan_out); break;
    case Init::normal: normal(context, weight, 0.01f); break;
    case Init::uniform:
      uniform_by_fan(context, weight, fan_in);
      if (bias != nullptr) uniform_by_fan(context, *bias, fan_in);
      break;
  }
}

}  // namespace

void normal(Context& context, Parameter& weight, float deviation, float mean) {
  draw_all(context, weight, [&](Generator& generator) { return mean + deviation * generator.normal(); });
}

void he_normal(Context& context, Parameter& weight, std::int64_t fan) {
  normal(context, weight, std::sqrt(2.0f / static_cast<float>(fan)));
}

void uniform_by_fan(Context& context, Parameter& tensor, std::int64_t fan) {
  uniform(context, tensor, 1.0f / std::sqrt(static_cast<float>(fan)));
}

void fill(Context& context, Parameter& tensor, float value) {
  draw_all(context, tensor, [&](Generator&) { return value; });
}

ConvLayer::ConvLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel, const Conv2dOptions& options,
                     Bias bias, Init init)
    : Module(context),
      options_(options),
      init_(init),
      weight_(add_tensor("weight", {out, kernel.h, kernel.w, grouped("conv", in, out, options.groups)})) {
  if (bias == Bias::yes) {
    bias_ = &add_tensor("bias", {out});
    bias_->weight_decay = false;
  }
  initialise();
}

void ConvLayer::initialise() {
  const Shape& filter = weight_.shape();  // [K,R,S,C/groups]
  const std::int64_t area = filter[1] * filter[2];
  draw_weights(context(), init_, area * filter[3], area * filter[0] / options_.groups, weight_, bias_);
}

Tensor ConvLayer::forward(const Tensor& x) {
  const Tensor w = cast(weight_, x.dtype());
  return bias_ == nullptr ? conv2d(x, w, options_) : conv2d(x, w, cast(*bias_, x.dtype()), options_);
}

ConvTransposeLayer::ConvTransposeLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel,
                                       const ConvTranspose2dOptions& options, Bias bias, Init init)
    : Module(context),
      options_(options),
      init_(init),
      weight_(add_tensor("weight", {in, kernel.h, kernel.w, grouped("conv_transpose", out, in, options.groups)})) {
  if (bias == Bias::yes) {
    bias_ = &add_tensor("bias", {out});
    bias_->weight_decay = false;
  }
  initialise();
}

void ConvTransposeLayer::initialise() {
  const Shape& filter = weight_.shape();
  const std::int64_t area = filter[1] * filter[2];
  draw_weights(context(), init_, area * filter[3], area * filter[0], weight_, bias_);
}

Tensor ConvTransposeLayer::forward(const Tensor& x) {
  const Tensor w = cast(weight_, x.dtype());
  return bias_ == nullptr ? conv_transpose2d(x, w, options_)
                          : conv_transpose2d(x, w, cast(*bias_, x.dtype()), options_);
}

GroupNormLayer::GroupNormLayer(Context& context, std::int64_t groups, std::int64_t channels, double epsilon)
    : Module(context),
      groups_(groups),
      epsilon_(epsilon),
      scale_(add_tensor("weight", {channels})),
      shift_(add_tensor("bias", {channels})) {
  scale_.weight_decay = shift_.weight_decay = false;
  initialise();
}

void GroupNormLayer::initialise() {
  fill(context(), scale_, 1);
  fill(context(), shift_, 0);
}

LayerNormLayer::LayerNormLayer(Context& context, const Shape& extents, double epsilon)
    : Module(context), epsilon_(epsilon), scale_(add_tensor("weight", extents)), shift_(add_tensor("bias", extents)) {
  scale_.weight_decay = shift_.weight_decay = false;
  initialise();
}

void LayerNormLayer::initialise() {
  fill(context(), scale_, 1);
  fill(context(), shift_, 0);
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
    : Module(context),
      conv_(add<ConvLayer>(norm.conv_name, in, out, kernel, conv)),
      norm_(add<BatchNormLayer>(norm.norm_name, out, norm.activation, norm.epsilon)) {}

LinearLayer::LinearLayer(Context& context, std::int64_t in, std::int64_t out, Init init)
    : Module(context), init_(init), weight_(add_tensor("weight", {out, in})), bias_(add_tensor("bias", {out})) {
  bias_.weight_decay = false;
  initialise();
}

void LinearLayer::initialise() {
  draw_weights(context(), init_, weight_.shape()[1], weight_.shape()[0], weight_, &bias_);
}

Tensor LinearLayer::forward(const Tensor& x) { return linear(x, cast(weight_, x.dtype()), cast(bias_, x.dtype())); }

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module* layer : layers_) y = (*layer)(y);
  return y;
}

}  // namespace braid
