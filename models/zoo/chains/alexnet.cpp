#include "models/zoo/chains/alexnet.h"

namespace braid::models {

AlexNet::AlexNet(Context& context, const AlexNetOptions& options)
    : Module(context),
      options_(options),
      features_(add<Sequential>("features")),
      classifier_(add<Sequential>("classifier")) {
  const bool large = options.stem == Stem::image;
  std::int64_t in = options.channels;
  const auto conv = [&](std::int64_t channels, std::int64_t kernel, Conv2dOptions form) {
    const std::int64_t out = scaled(channels, options.width);
    form.activation = Activation::relu;
    features_.append<ConvLayer>(in, out, kernel, form, Bias::yes, Init::uniform);
    features_.skip();  // the ReLU
    in = out;
  };
  const auto pool = [&] { features_.append<MaxPoolLayer>(PoolOptions{.window = 3, .stride = 2}); };
  conv(64, large ? 11 : 5, {.stride = large ? 4 : 1, .padding = 2});
  pool();
  conv(192, 5, {.padding = 2});
  pool();
  conv(384, 3, {.padding = 1});
  conv(256, 3, {.padding = 1});
  conv(256, 3, {.padding = 1});
  pool();

  const std::int64_t hidden = scaled(large ? 4096 : 1024, options.width), pixels = large ? 6 * 6 : 2 * 2;
  classifier_.append<DropoutLayer>(0.5);
  classifier_.append<LinearLayer>(in * pixels, hidden);
  classifier_.append<ReluLayer>();
  classifier_.append<DropoutLayer>(0.5);
  classifier_.append<LinearLayer>(hidden, hidden);
  classifier_.append<ReluLayer>();
  classifier_.append<LinearLayer>(hidden, options.classes);
}

Tensor AlexNet::forward(const Tensor& x) {
  const bool large = options_.stem == Stem::image;
  check_images("alexnet", x, options_.channels, large ? 63 : 15);
  return classifier_(flatten(adaptive_avg_pool2d(features_(x), large ? 6 : 2)));
}

}  // namespace braid::models
