#include "models/vgg.h"

namespace braid::models {

namespace {

/// Stages of 3x3 convolutions, each with a max pool at its end.
struct VggStage {
  std::int64_t channels;
  int convolutions;
};
constexpr VggStage kVggStages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};

constexpr std::int64_t kSide = 7;  // of the image that the classifier of the image form sees

}  // namespace

Vgg16::Vgg16(Context& context, Norm norm, const VggOptions& options)
    : Module(context),
      options_(options),
      norm_(norm),
      features_(add<Sequential>("features")),
      classifier_(add<Sequential>("classifier")) {
  const bool large = options.stem == Stem::image;
  std::int64_t in = options.channels;
  for (const VggStage& stage : kVggStages) {
    const std::int64_t out = scaled(stage.channels, options.width);
    for (int i = 0; i < stage.convolutions; ++i) {
      const bool normalised = norm == Norm::batch;
      const Activation activation = normalised ? Activation::none : Activation::relu;
      features_.append<ConvLayer>(in, out, 3, Conv2dOptions{.padding = 1, .activation = activation}, Bias::yes);
      if (normalised) features_.append<BatchNormLayer>(out, Activation::relu);
      features_.skip();  // the ReLU
      in = out;
    }
    features_.append<MaxPoolLayer>(PoolOptions{.ceil_mode = !large});
  }
  const std::int64_t hidden = scaled(large ? 4096 : 512, options.width);
  classifier_.append<LinearLayer>(large ? in * kSide * kSide : in, hidden, Init::normal);
  classifier_.append<ReluLayer>();
  classifier_.append<DropoutLayer>(0.5);
  classifier_.append<LinearLayer>(hidden, hidden, Init::normal);
  classifier_.append<ReluLayer>();
  classifier_.append<DropoutLayer>(0.5);
  classifier_.append<LinearLayer>(hidden, options.classes, Init::normal);
}

Tensor Vgg16::forward(const Tensor& x) {
  const bool large = options_.stem == Stem::image;
  check_images(norm_ == Norm::batch ? "vgg16_bn" : "vgg16", x, options_.channels, large ? 32 : 17);
  const Tensor y = features_(x);
  return classifier_(large ? flatten(adaptive_avg_pool2d(y, kSide)) : global_avg_pool(y));
}

}  // namespace braid::models
