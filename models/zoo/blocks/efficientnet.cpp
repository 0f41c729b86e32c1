#include "models/zoo/blocks/efficientnet.h"

#include <algorithm>

namespace braid::models {

namespace {

constexpr NormOptions kLinearNorm{.activation = Activation::none, .conv_name = "0", .norm_name = "1"};

/// A row of table 1 of the paper: `repeats` blocks, the first with the stride.
struct EfficientNetStage {
  std::int64_t expansion, kernel, stride, channels;
  int repeats;
};
constexpr EfficientNetStage kEfficientNetStages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                                                     {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                                                     {6, 3, 1, 320, 1}};

/// Leaves out the whole of an image, with probability p, and scales the others by 1 / (1 − p).
class StochasticDepth final : public Module {
 public:
  StochasticDepth(Context& context, double p) : Module(context), p_(p), layer_(context.next_layer()) {}
  Tensor forward(const Tensor& x) override {
    if (!training() || p_ == 0) return x;
    Array ones(DType::f32, {x.shape()[0], 1, 1, 1});
    std::ranges::fill(ones.as<float>(), 1.0f);
    return x * dropout(cast(ones, x.dtype()), p_, layer_);
  }

 private:
  double p_;
  std::uint32_t layer_;
};

class MBConv final : public Chain {
 public:
  MBConv(Context& context, std::int64_t in, std::int64_t out, const EfficientNetStage& stage, std::int64_t stride,
         double drop)
      : Chain(context), residual_(stride == 1 && in == out) {
    const std::int64_t inner = in * stage.expansion;
    int next = 0;
    const auto name = [&] { return message("block.", next++); };
    if (stage.expansion != 1) {
      then<ConvNormLayer>(name(), in, inner, 1, Conv2dOptions{}, kLinearNorm);
      then(silu);
    }
    then<ConvNormLayer>(name(), inner, inner, stage.kernel,
                        Conv2dOptions{.stride = stride, .padding = stage.kernel / 2, .groups = inner}, kLinearNorm);
    then(silu);
    then<SqueezeExcitation>(name(), inner, std::max<std::int64_t>(1, in / 4));
    then<ConvNormLayer>(name(), inner, out, 1, Conv2dOptions{}, kLinearNorm);
    depth_ = &add<StochasticDepth>("stochastic_depth", drop);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = Chain::forward(x);
    return residual_ ? (*depth_)(y) + x : y;
  }

 private:
  bool residual_;
  StochasticDepth* depth_;
};

}  // namespace

SqueezeExcitation::SqueezeExcitation(Context& context, std::int64_t channels, std::int64_t squeezed)
    : Module(context),
      fc1_(add<ConvLayer>("fc1", channels, squeezed, 1, Conv2dOptions{}, Bias::yes)),
      fc2_(add<ConvLayer>("fc2", squeezed, channels, 1, Conv2dOptions{}, Bias::yes)) {}

Tensor SqueezeExcitation::forward(const Tensor& x) {
  const Tensor mean = adaptive_avg_pool2d(x, 1);  // [N,1,1,C]
  return x * sigmoid(fc2_(silu(fc1_(mean))));
}

EfficientNetB0::EfficientNetB0(Context& context, const EfficientNetOptions& options) : Chain(context) {
  BRAID_CHECK(options.width > 0, Error, "[efficientnet_b0] expected a width above 0, got ", options.width);
  BRAID_CHECK(options.stochastic_depth >= 0 && options.stochastic_depth < 1, Error,
              "[efficientnet_b0] expected a stochastic_depth in [0, 1), got ", options.stochastic_depth);
  then(checked_images("efficientnet_b0", options.channels, 1));
  auto& dropout = add<DropoutLayer>("classifier.0", 0.2);  // draws the random numbers of the first layer that does
  int number = 0;
  const auto name = [&] { return message("features.", number++); };
  const auto conv = [&](std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t stride) {
    Chain& layer = then<Chain>(name());
    layer.then<ConvLayer>("0", from, to, kernel, Conv2dOptions{.stride = stride, .padding = kernel / 2});
    layer.then<BatchNormLayer>("1", to);
    layer.then(silu);
  };
  const bool large = options.stem == Stem::image;
  std::int64_t in = divisible(32, options.width);
  conv(options.channels, in, 3, large ? 2 : 1);
  int blocks = 0, block = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages) blocks += stage.repeats;
  bool keep_size = !large;  // in the first stage with a stride
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    const std::int64_t out = divisible(stage.channels, options.width);
    std::int64_t stride = stage.stride;
    if (stride != 1 && std::exchange(keep_size, false)) stride = 1;
    Sequential& layers = then<Sequential>(name());
    for (int i = 0; i < stage.repeats; ++i, ++block, in = out) {
      layers.append<MBConv>(in, out, stage, i == 0 ? stride : 1, options.stochastic_depth * block / blocks);
    }
  }
  conv(in, 4 * in, 1, 1);
  then(global_avg_pool);
  then(dropout);
  then<LinearLayer>("classifier.1", 4 * in, options.classes, Init::uniform_fan_out);
}

}  // namespace braid::models
