#include "models/zoo/chains/vgg.h"

namespace braid::models {

namespace {

/// Stages of 3x3 convolutions, each with a max pool at its end.
struct VggStage {
  std::int64_t channels;
  int convolutions;
  bool grows;  ///< by one convolution in VGG-19
};
constexpr VggStage kVggStages[] = {{64, 2, false}, {128, 2, false}, {256, 3, true}, {512, 3, true}, {512, 3, true}};

constexpr std::int64_t kSide = 7;  // side of the image that the classifier of the image form sees

}  // namespace

Vgg::Vgg(Context& context, int layers, Norm norm, const VggOptions& options)
    : Module(context),
      options_(options),
      name_(message("vgg", layers, norm == Norm::batch ? "_bn" : "")),
      features_(add<Sequential>("features")),
      classifier_(add<Sequential>("classifier")) {
  BRAID_CHECK(layers == 16 || layers == 19, Error, "[vgg] expected 16 or 19 layers, got ", layers);
  const bool large = options.stem == Stem::image;
  std::int64_t in = options.channels;
  for (const VggStage& stage : kVggStages) {
    const std::int64_t out = scaled(stage.channels, options.width);
    const int convolutions = stage.convolutions + (stage.grows && layers == 19 ? 1 : 0);
    for (int i = 0; i < convolutions; ++i) {
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

Tensor Vgg::forward(const Tensor& x) {
  const bool large = options_.stem == Stem::image;
  check_images(name_, x, options_.channels, large ? 32 : 17);
  const Tensor y = features_(x);
  return classifier_(large ? flatten(adaptive_avg_pool2d(y, kSide)) : global_avg_pool(y));
}

}  // namespace braid::models
