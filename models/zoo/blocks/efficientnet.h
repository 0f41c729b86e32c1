#pragma once
// EfficientNet-B0 (Tan and Le, 2019): inverted residual blocks with squeeze-and-excitation. The squeeze is a small
// chain alongside a large tensor that waits for it, which leaves a scheduler room for other work.
//
// Stem: for small images the first convolution and the first stage with a stride keep the image's size, so that 32x32
// pixels become 4x4 in the end. Initial weights are those of torchvision: He's for convolutions, uniform in ±1/√classes
// for the classifier.

#include "models/layers/layers.h"

namespace braid::models {

struct EfficientNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;  ///< channels of the input image
  Stem stem = Stem::small_image;
  double width = 1;               ///< multiplies the channels, which become multiples of 8
  double stochastic_depth = 0.2;  ///< share of images for which the last residual block is left out, the first: none
};

/// Squeeze-and-excitation (Hu et al., 2018): x [N,H,W,C] times a factor for each image and channel, sigmoid of two 1x1
/// convolutions of the mean over the pixels.
class SqueezeExcitation final : public Module {
 public:
  SqueezeExcitation(Context& context, std::int64_t channels, std::int64_t squeezed);
  Tensor forward(const Tensor& x) override;

 private:
  ConvLayer& fc1_;
  ConvLayer& fc2_;
};

/// images [N,H,W,channels] → logits [N,classes]
class EfficientNetB0 final : public Chain {
 public:
  using Options = EfficientNetOptions;
  explicit EfficientNetB0(Context& context, const EfficientNetOptions& options = {});
};

inline EfficientNetB0 efficientnet_b0(Context& context, const EfficientNetOptions& options = {}) {
  return EfficientNetB0(context, options);
}

}  // namespace braid::models
