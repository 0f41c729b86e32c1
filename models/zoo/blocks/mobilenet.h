#pragma once
// MobileNet-v2 (Sandler et al., 2018): inverted residual blocks, which expand the channels, filter each channel
// separately, and project back without an activation.
//
// Stem: for small images the first convolution and the stage of 24 channels keep the image's size, so that 32x32 pixels
// become 4x4 in the end.
//
// The width follows the paper's code: channels become multiples of 8, never less than 90 % of the request, and the last
// convolution keeps at least 1280. Convolutions start with He's initialisation, the classifier normal with deviation
// 0.01.

#include "models/layers/layers.h"

namespace braid::models {

using MobileNetOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class MobileNetV2 final : public Chain {
 public:
  using Options = MobileNetOptions;
  explicit MobileNetV2(Context& context, const MobileNetOptions& options = {});
};

inline MobileNetV2 mobilenet_v2(Context& context, const MobileNetOptions& options = {}) {
  return MobileNetV2(context, options);
}

}  // namespace braid::models
