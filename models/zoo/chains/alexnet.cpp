#include "models/zoo/chains/alexnet.h"

namespace braid::models {

AlexNet::AlexNet(Context& context, const AlexNetOptions& options) : Chain(context) {
  const bool large = options.stem == Stem::image;
  then(checked_images("alexnet", options.channels, large ? 63 : 15));
  Sequential& features = then<Sequential>("features");
  std::int64_t in = options.channels;
  const auto conv = [&](std::int64_t channels, std::int64_t kernel, Conv2dOptions form) {
    const std::int64_t out = scaled(channels, options.width);
    form.activation = Activation::relu;
    features.append<ConvLayer>(in, out, kernel, form, Bias::yes, Init::uniform);
    features.skip();  // the ReLU
    in = out;
  };
  const auto pool = [&] { features.append<MaxPoolLayer>(PoolOptions{.window = 3, .stride = 2}); };
  conv(64, large ? 11 : 5, {.stride = large ? 4 : 1, .padding = 2});
  pool();
  conv(192, 5, {.padding = 2});
  pool();
  conv(384, 3, {.padding = 1});
  conv(256, 3, {.padding = 1});
  conv(256, 3, {.padding = 1});
  pool();

  const std::int64_t hidden = scaled(large ? 4096 : 1024, options.width), side = large ? 6 : 2;
  then([side](const Tensor& x) { return flatten(adaptive_avg_pool2d(x, side)); });
  Sequential& classifier = then<Sequential>("classifier");
  classifier.append<DropoutLayer>(0.5);
  classifier.append<LinearLayer>(in * side * side, hidden);
  classifier.append<ReluLayer>();
  classifier.append<DropoutLayer>(0.5);
  classifier.append<LinearLayer>(hidden, hidden);
  classifier.append<ReluLayer>();
  classifier.append<LinearLayer>(hidden, options.classes);
}

}  // namespace braid::models
