#pragma once
// DenseNet-121 (Huang et al., 2017), the bottleneck and compression form: within a block, every layer sees the outputs
// of all layers before it.
//
// Stem: a 7x7 convolution with stride 2 and a 3x3 max pool with stride 2; for small images a 3x3 convolution with
// stride 1 and no pool.
//
// Convolutions start with He's initialisation over fan_in.

#include "models/layers/layers.h"

namespace braid::models {

/// Images have at least 8x8 pixels, or 29x29 with Stem::image. The width multiplies the growth rate of 32 and the
/// channels of the stem.
using DenseNetOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class DenseNet121 final : public Chain {
 public:
  using Options = DenseNetOptions;
  explicit DenseNet121(Context& context, const DenseNetOptions& options = {});
};

inline DenseNet121 densenet121(Context& context, const DenseNetOptions& options = {}) {
  return DenseNet121(context, options);
}

}  // namespace braid::models
