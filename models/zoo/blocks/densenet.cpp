#include "models/zoo/blocks/densenet.h"

#include <array>

namespace braid::models {

namespace {

constexpr std::int64_t kGrowth = 32;
constexpr std::int64_t kBottleneck = 4;  // the 1x1 convolution has 4·growth channels
constexpr int kLayers[] = {6, 12, 24, 16};

/// Normalise, ReLU, 1x1 convolution; normalise, ReLU, 3x3 convolution.
class DenseLayer final : public Module {
 public:
  DenseLayer(Context& context, std::int64_t in, std::int64_t growth)
      : Module(context),
        layers_{&add<BatchNormLayer>("norm1", in, Activation::relu),
                &add<ConvLayer>("conv1", in, kBottleneck * growth, 1, Conv2dOptions{}, Bias::no, Init::he_fan_in),
                &add<BatchNormLayer>("norm2", kBottleneck * growth, Activation::relu),
                &add<ConvLayer>("conv2", kBottleneck * growth, growth, 3, Conv2dOptions{.padding = 1}, Bias::no,
                                Init::he_fan_in)} {}
  Tensor forward(const Tensor& x) override { return chain(x, layers_); }

 private:
  std::vector<Module*> layers_;
};

/// Layers that each see the block's input and all outputs before; so does what follows the block.
class DenseBlock final : public Module {
 public:
  DenseBlock(Context& context, std::int64_t in, std::int64_t growth, int layers) : Module(context) {
    for (int i = 0; i < layers; ++i) {
      layers_.push_back(&add<DenseLayer>(message("denselayer", i + 1), in + i * growth, growth));
    }
  }
  Tensor forward(const Tensor& x) override {
    // Joined one by one, instead of joining all again for every layer: so the gradient of what was joined before, most
    // of it still in the caches, flows from layer to layer as one value.
    Tensor joined = x;
    for (DenseLayer* layer : layers_) joined = concat(std::array{joined, (*layer)(joined)});
    return joined;
  }

 private:
  std::vector<DenseLayer*> layers_;
};

/// Halves the channels, the height and the width.
class Transition final : public Module {
 public:
  Transition(Context& context, std::int64_t in, std::int64_t out)
      : Module(context),
        norm_(add<BatchNormLayer>("norm", in, Activation::relu)),
        conv_(add<ConvLayer>("conv", in, out, 1, Conv2dOptions{}, Bias::no, Init::he_fan_in)) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(conv_(norm_(x)), {.window = 2, .stride = 2}); }

 private:
  BatchNormLayer& norm_;
  ConvLayer& conv_;
};

}  // namespace

DenseNet121::DenseNet121(Context& context, const DenseNetOptions& options) : Module(context), options_(options) {
  const bool large = options.stem == Stem::image;
  const std::int64_t growth = scaled(kGrowth, options.width);
  std::int64_t channels = 2 * growth;
  stem_conv_ =
      &add<ConvLayer>("features.conv0", options.channels, channels, large ? 7 : 3,
                      Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 3 : 1}, Bias::no, Init::he_fan_in);
  stem_norm_ = &add<BatchNormLayer>("features.norm0", channels, Activation::relu);
  int number = 0;
  for (const int layers : kLayers) {
    if (number > 0) {
      blocks_.push_back(&add<Transition>(message("features.transition", number), channels, channels / 2));
      channels /= 2;
    }
    blocks_.push_back(&add<DenseBlock>(message("features.denseblock", ++number), channels, growth, layers));
    channels += layers * growth;
  }
  last_norm_ = &add<BatchNormLayer>("features.norm5", channels, Activation::relu);
  classifier_ = &add<LinearLayer>("classifier", channels, options.classes);
}

Tensor DenseNet121::forward(const Tensor& x) {
  const bool large = options_.stem == Stem::image;
  check_images("densenet121", x, options_.channels, large ? 29 : 8);
  Tensor y = (*stem_norm_)((*stem_conv_)(x));
  if (large) y = max_pool2d(y, {.window = 3, .stride = 2, .padding = 1});
  return (*classifier_)(global_avg_pool((*last_norm_)(chain(y, blocks_))));
}

}  // namespace braid::models
