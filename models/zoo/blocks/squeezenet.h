#pragma once
// SqueezeNet 1.0 and 1.1 (Iandola et al., 2016): fire modules, which squeeze the channels and then expand them with 1x1
// and 3x3 convolutions side by side. No batch normalisation; the classifier is a convolution.
//
// Stem: a 7x7 (1.0) or 3x3 (1.1) convolution with stride 2 and a max pool; for small images a 3x3 convolution with
// stride 1 and no pool.
//
// Convolutions start uniform after He, the classifier normal with deviation 0.01, biases at zero.

#include "models/layers/layers.h"

namespace braid::models {

/// Images have at least 6x6 pixels, or with Stem::image 29x29 (1.0) or 25x25 (1.1). The width leaves the classifier as
/// it is.
using SqueezeNetOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class SqueezeNet final : public Chain {
 public:
  enum class Version { v1_0, v1_1 };
  SqueezeNet(Context& context, Version version, const SqueezeNetOptions& options = {});
};

inline SqueezeNet squeezenet1_0(Context& context, const SqueezeNetOptions& options = {}) {
  return SqueezeNet(context, SqueezeNet::Version::v1_0, options);
}
inline SqueezeNet squeezenet1_1(Context& context, const SqueezeNetOptions& options = {}) {
  return SqueezeNet(context, SqueezeNet::Version::v1_1, options);
}

}  // namespace braid::models
