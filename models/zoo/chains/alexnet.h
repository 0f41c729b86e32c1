#pragma once
// AlexNet in the form of Krizhevsky (2014, "One weird trick"), as torchvision has it: no local response normalisation
// and no groups.
//
// The image form begins with an 11x11 convolution with stride 4, pools to 6x6 and has hidden layers of 4096 units. The
// form for small images begins with a 5x5 convolution with stride 1, pools to 2x2 and has hidden layers of 1024 units.
//
// All layers start uniform in ±1/√fan_in, biases too.

#include "models/layers/layers.h"

namespace braid::models {

/// Images have at least 15x15 pixels, or 63x63 with Stem::image. The width multiplies the hidden units, too.
using AlexNetOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class AlexNet final : public Chain {
 public:
  using Options = AlexNetOptions;
  explicit AlexNet(Context& context, const AlexNetOptions& options = {});
};

inline AlexNet alexnet(Context& context, const AlexNetOptions& options = {}) { return AlexNet(context, options); }

}  // namespace braid::models
