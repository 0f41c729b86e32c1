#include "models/zoo/blocks/mobilenet.h"

#include <algorithm>

namespace braid::models {

namespace {

constexpr NormOptions kNorm{.activation = Activation::relu6, .conv_name = "0", .norm_name = "1"};

/// A row of table 2 of the paper: `repeats` blocks, the first with the stride.
struct MobileNetStage {
  std::int64_t expansion;
  std::int64_t channels;
  int repeats;
  std::int64_t stride;
};
constexpr MobileNetStage kMobileNetStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

class InvertedResidual final : public Chain {
 public:
  InvertedResidual(Context& context, std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : Chain(context), residual_(stride == 1 && in == out) {
    const std::int64_t inner = in * expansion;
    int next = 0;
    const auto name = [&] { return message("conv.", next++); };
    if (expansion != 1) then<ConvNormLayer>(name(), in, inner, 1, Conv2dOptions{}, kNorm);
    const Conv2dOptions filter{.stride = stride, .padding = 1, .groups = inner};
    then<ConvNormLayer>(name(), inner, inner, 3, filter, kNorm);
    then<ConvLayer>(name(), inner, out, 1);
    norm_ = &add<BatchNormLayer>(name(), out);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = Chain::forward(x);
    return residual_ ? (*norm_)(y, x) : (*norm_)(y);
  }

 private:
  bool residual_;
  BatchNormLayer* norm_;
};

}  // namespace

MobileNetV2::MobileNetV2(Context& context, const MobileNetOptions& options) : Chain(context) {
  BRAID_CHECK(options.width > 0, Error, "[mobilenet_v2] expected a width above 0, got ", options.width);
  const bool large = options.stem == Stem::image;
  then(checked_images("mobilenet_v2", options.channels, 1));
  Sequential& features = then<Sequential>("features");
  std::int64_t in = divisible(32, options.width);
  features.append<ConvNormLayer>(options.channels, in, 3, Conv2dOptions{.stride = large ? 2 : 1, .padding = 1}, kNorm);
  for (const MobileNetStage& stage : kMobileNetStages) {
    const std::int64_t out = divisible(stage.channels, options.width);
    const bool keeps_size = !large && stage.channels == 24;
    for (int i = 0; i < stage.repeats; ++i) {
      features.append<InvertedResidual>(in, out, i == 0 && !keeps_size ? stage.stride : 1, stage.expansion);
      in = out;
    }
  }
  const std::int64_t last = divisible(1280, std::max(1.0, options.width));
  features.append<ConvNormLayer>(in, last, 1, Conv2dOptions{}, kNorm);
  then(global_avg_pool);
  then<DropoutLayer>("classifier.0", 0.2);
  then<LinearLayer>("classifier.1", last, options.classes, Init::normal);
}

}  // namespace braid::models
