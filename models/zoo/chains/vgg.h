#pragma once
// VGG-16 and VGG-19 (Simonyan and Zisserman, 2015; configurations D and E), without or with batch normalisation.
//
// The image form pools to 7x7 and has hidden layers of 4096 units, as published. The form for small images pools to one
// pixel and has hidden layers of 512 units; its max pools round up, so that 28x28 pixels are enough for all five.
//
// Convolutions start with He's initialisation, linear layers normal with deviation 0.01, biases at zero.

#include "models/layers/layers.h"

namespace braid::models {

/// Images have at least 17x17 pixels, or 32x32 with Stem::image. The width multiplies the hidden units, too.
using VggOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class Vgg final : public Chain {
 public:
  enum class Norm { none, batch };
  /// Makes a network with 16 or 19 layers that have weights.
  Vgg(Context& context, int layers, Norm norm, const VggOptions& options = {});
};

inline Vgg vgg16(Context& context, const VggOptions& options = {}) {
  return Vgg(context, 16, Vgg::Norm::none, options);
}
inline Vgg vgg16_bn(Context& context, const VggOptions& options = {}) {
  return Vgg(context, 16, Vgg::Norm::batch, options);
}
inline Vgg vgg19(Context& context, const VggOptions& options = {}) {
  return Vgg(context, 19, Vgg::Norm::none, options);
}
inline Vgg vgg19_bn(Context& context, const VggOptions& options = {}) {
  return Vgg(context, 19, Vgg::Norm::batch, options);
}

}  // namespace braid::models
