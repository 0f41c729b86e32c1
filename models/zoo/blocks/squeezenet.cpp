#include "models/zoo/blocks/squeezenet.h"

#include <array>

namespace braid::models {

namespace {

constexpr Conv2dOptions kActivated{.activation = Activation::relu};

class Fire final : public Module {
 public:
  Fire(Context& context, std::int64_t in, std::int64_t squeezed, std::int64_t expanded)
      : Module(context),
        squeeze_(add<ConvLayer>("squeeze", in, squeezed, 1, kActivated, Bias::yes, Init::he_uniform)),
        expand1x1_(add<ConvLayer>("expand1x1", squeezed, expanded, 1, kActivated, Bias::yes, Init::he_uniform)),
        expand3x3_(add<ConvLayer>("expand3x3", squeezed, expanded, 3,
                                  Conv2dOptions{.padding = 1, .activation = Activation::relu}, Bias::yes,
                                  Init::he_uniform)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = squeeze_(x);
    return concat(std::array{expand1x1_(y), expand3x3_(y)});
  }

 private:
  ConvLayer& squeeze_;
  ConvLayer& expand1x1_;
  ConvLayer& expand3x3_;
};

/// Channels of a fire module: squeezed, and expanded by each of the two convolutions. A pool if there are none.
struct Step {
  std::int64_t squeezed = 0;
  std::int64_t expanded = 0;
};
constexpr Step kPool{};

constexpr Step kSteps1_0[] = {{16, 64},  {16, 64},  {32, 128}, kPool, {32, 128},
                              {48, 192}, {48, 192}, {64, 256}, kPool, {64, 256}};
constexpr Step kSteps1_1[] = {{16, 64}, {16, 64},  kPool,     {32, 128}, {32, 128},
                              kPool,    {48, 192}, {48, 192}, {64, 256}, {64, 256}};

}  // namespace

SqueezeNet::SqueezeNet(Context& context, Version version, const SqueezeNetOptions& options) : Chain(context) {
  const bool old = version == Version::v1_0, large = options.stem == Stem::image;
  const std::int64_t smallest = large ? (old ? 29 : 25) : 6;
  then(checked_images(old ? "squeezenet1_0" : "squeezenet1_1", options.channels, smallest));
  Sequential& features = then<Sequential>("features");
  const PoolOptions pool{.window = 3, .stride = 2, .ceil_mode = true};
  std::int64_t in = scaled(old ? 96 : 64, options.width);
  features.append<ConvLayer>(
      options.channels, in, old && large ? 7 : 3,
      Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 0 : 1, .activation = Activation::relu}, Bias::yes,
      Init::he_uniform);
  features.skip();  // the ReLU
  if (large) {
    features.append<MaxPoolLayer>(pool);
  } else {
    features.skip();
  }
  for (const Step& step : old ? kSteps1_0 : kSteps1_1) {
    if (step.expanded == 0) {
      features.append<MaxPoolLayer>(pool);
    } else {
      const std::int64_t expanded = scaled(step.expanded, options.width);
      features.append<Fire>(in, scaled(step.squeezed, options.width), expanded);
      in = 2 * expanded;
    }
  }
  then<DropoutLayer>("classifier.0", 0.5);
  then<ConvLayer>("classifier.1", in, options.classes, 1, kActivated, Bias::yes, Init::normal);
  then(global_avg_pool);
}

}  // namespace braid::models
