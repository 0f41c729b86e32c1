#include "models/zoo/blocks/densenet.h"

#include <array>

namespace braid::models {

namespace {

constexpr std::int64_t kGrowth = 32;
constexpr std::int64_t kBottleneck = 4;  // the 1x1 convolution has 4·growth channels
constexpr int kLayers[] = {6, 12, 24, 16};

/// Layers that each see the block's input and all outputs before; so does what follows the block.
class DenseBlock final : public Module {
 public:
  DenseBlock(Context& context, std::int64_t in, std::int64_t growth, int layers) : Module(context) {
    for (int i = 0; i < layers; ++i) {
      Chain& layer = *layers_.emplace_back(&add<Chain>(message("denselayer", i + 1)));
      const std::int64_t before = in + i * growth, inner = kBottleneck * growth;
      layer.then<BatchNormLayer>("norm1", before, Activation::relu);
      layer.then<ConvLayer>("conv1", before, inner, 1, Conv2dOptions{}, Bias::no, Init::he_fan_in);
      layer.then<BatchNormLayer>("norm2", inner, Activation::relu);
      layer.then<ConvLayer>("conv2", inner, growth, 3, Conv2dOptions{.padding = 1}, Bias::no, Init::he_fan_in);
    }
  }
  Tensor forward(const Tensor& x) override {
    // Joined one by one, instead of joining all again for every layer: so the gradient of what was joined before, most
    // of it still in the caches, flows from layer to layer as one value.
    Tensor joined = x;
    for (Chain* layer : layers_) joined = concat(std::array{joined, (*layer)(joined)});
    return joined;
  }

 private:
  std::vector<Chain*> layers_;
};

}  // namespace

DenseNet121::DenseNet121(Context& context, const DenseNetOptions& options) : Chain(context) {
  const bool large = options.stem == Stem::image;
  const std::int64_t growth = scaled(kGrowth, options.width);
  std::int64_t channels = 2 * growth;
  then(checked_images("densenet121", options.channels, large ? 29 : 8));
  then<ConvLayer>("features.conv0", options.channels, channels, large ? 7 : 3,
                  Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 3 : 1}, Bias::no, Init::he_fan_in);
  then<BatchNormLayer>("features.norm0", channels, Activation::relu);
  if (large) then([](const Tensor& x) { return max_pool2d(x, {.window = 3, .stride = 2, .padding = 1}); });
  int number = 0;
  for (const int layers : kLayers) {
    if (number > 0) {  // halves the channels, the height and the width
      Chain& transition = then<Chain>(message("features.transition", number));
      transition.then<BatchNormLayer>("norm", channels, Activation::relu);
      transition.then<ConvLayer>("conv", channels, channels / 2, 1, Conv2dOptions{}, Bias::no, Init::he_fan_in);
      transition.then([](const Tensor& x) { return avg_pool2d(x, {.window = 2, .stride = 2}); });
      channels /= 2;
    }
    then<DenseBlock>(message("features.denseblock", ++number), channels, growth, layers);
    channels += layers * growth;
  }
  then<BatchNormLayer>("features.norm5", channels, Activation::relu);
  then(global_avg_pool);
  then<LinearLayer>("classifier", channels, options.classes);
}

}  // namespace braid::models
