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

Vgg::Vgg(Context& context, int layers, Norm norm, const VggOptions& options) : Chain(context) {
  BRAID_CHECK(layers == 16 || layers == 19, Error, "[vgg] expected 16 or 19 layers, got ", layers);
  const bool large = options.stem == Stem::image;
  then(checked_images(message("vgg", layers, norm == Norm::batch ? "_bn" : ""), options.channels, large ? 32 : 17));
  Sequential& features = then<Sequential>("features");
  std::int64_t in = options.channels;
  for (const VggStage& stage : kVggStages) {
    const std::int64_t out = scaled(stage.channels, options.width);
    const int convolutions = stage.convolutions + (stage.grows && layers == 19 ? 1 : 0);
    for (int i = 0; i < convolutions; ++i) {
      const bool normalised = norm == Norm::batch;
      const Activation activation = normalised ? Activation::none : Activation::relu;
      features.append<ConvLayer>(in, out, 3, Conv2dOptions{.padding = 1, .activation = activation}, Bias::yes);
      if (normalised) features.append<BatchNormLayer>(out, Activation::relu);
      features.skip();  // the ReLU
      in = out;
    }
    features.append<MaxPoolLayer>(PoolOptions{.ceil_mode = !large});
  }
  const std::int64_t hidden = scaled(large ? 4096 : 512, options.width);
  large ? then([](const Tensor& x) { return flatten(adaptive_avg_pool2d(x, kSide)); }) : then(global_avg_pool);
  Sequential& classifier = then<Sequential>("classifier");
  classifier.append<LinearLayer>(large ? in * kSide * kSide : in, hidden, Init::normal);
  classifier.append<ReluLayer>();
  classifier.append<DropoutLayer>(0.5);
  classifier.append<LinearLayer>(hidden, hidden, Init::normal);
  classifier.append<ReluLayer>();
  classifier.append<DropoutLayer>(0.5);
  classifier.append<LinearLayer>(hidden, options.classes, Init::normal);
}

}  // namespace braid::models
